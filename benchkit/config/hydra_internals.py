"""Hydra's private parts: all that benchkit uses of Hydra beyond what Hydra documents.

What Hydra's example plugins use is in benchkit.sweep, and the wording of Hydra's errors in
benchkit.config.messages. tests/unit/config/test_hydra_internals.py pins all three.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, Node, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from benchkit.config.vocabulary import TAKING_VALUES, beside_overrides
from benchkit.errors import ConfigError

ERRORS = (HydraException, OmegaConfBaseException, YAMLError)
"""Exceptions that a wrong configuration raises in Hydra, beside OSError and ValueError."""
BELOW_NULL = "Unexpected type for root"
"""In the AssertionError of OmegaConf for a key below a group that is null."""
PROGRAM = "benchkit"
"""The command that Hydra names in messages, and completes in shells."""
COMPLETED = "COMP_LINE"
"""The variable with the line that a shell completes."""
MULTIRUN = ("-m", "--multirun")
MODES = {"--cfg", "-c", "--info", "-i", "--run", "-r", "--shell-completion", "-sc", "hydra.mode"}
"""What asks Hydra for something else than a sweep, before the equals sign."""


@dataclass
class SweepTask:
    """What Hydra is given to run. Hydra hands it to the sweeper, whose own result it discards.

    Attributes:
        statuses: how the points of the sweep ended, those of earlier attempts among them.
    """

    statuses: list[str] = field(default_factory=list)

    def __call__(self, composed: DictConfig) -> None:
        """Refuses to run a point for Hydra, because the sweeper runs all points itself."""
        raise ConfigError(
            "hydra.mode and hydra/sweeper are benchkit's: one point is a sweep of one, "
            "and checked first"
        )


def run(folder: Path, arguments: Sequence[str]) -> list[str]:
    """Runs Hydra on a command line and returns the statuses of its points.

    Hydra's errors are raised, where Hydra would print them and exit.

    Args:
        folder: of the YAML files.
        arguments: as typed, without the name of the program.
    """
    task = SweepTask()
    start = hydra.main(config_path=str(folder), config_name="config", version_base="1.3")(task)
    typed, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [PROGRAM, *flags_first(arguments)]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    if line := os.environ.get(COMPLETED):
        print("\n".join(beside_overrides(line)))
        os.environ[COMPLETED] = completable(line)
    try:
        with groups_required(arguments):
            start()
    finally:
        sys.argv = typed
        del os.environ["HYDRA_FULL_ERROR"]
        if full_error is not None:
            os.environ["HYDRA_FULL_ERROR"] = full_error
    return task.statuses


def flags_first(arguments: Sequence[str]) -> list[str]:
    """Puts flags with their values in front, and -m where it is missing.

    Hydra 1.3 accepts no override after a flag (hydra #3053, fixed in 1.4). Without -m it calls
    values with commas ambiguous where something else is wrong, and does not say what.
    """
    flags: list[str] = []
    overrides: list[str] = []
    before = ""
    for argument in arguments:
        is_flag = argument.startswith("-") or before in TAKING_VALUES
        (flags if is_flag else overrides).append(argument)
        before = argument
    others = [*(flag for flag in flags if flag not in MULTIRUN), *overrides]
    return ["-m", *others] if measures(others) else others


def completable(line: str) -> str:
    """Returns a line that a shell completes as Hydra 1.3 can compose it.

    It accepts neither -m between overrides nor several values of a key, so the first one stands for
    all. It knows neither the flags nor the commands of benchkit.
    """
    program, *before, last = line.split(" ")
    words = [
        word
        for number, word in enumerate(before)
        if set(word) & set("='\"") or is_of_folder(before, number)
    ]
    words = [word if set(word) & set("'\"[({") else word.partition(",")[0] for word in words]
    return " ".join([program, *words, "" if last.startswith("-") else last])


def is_of_folder(words: Sequence[str], number: int) -> bool:
    """Returns whether a word is the flag for a folder of YAML, or that flag's value."""
    return bool(set(words[max(0, number - 1) : number + 1]) & {"--config-dir", "-cd"})


def measures(arguments: Sequence[str]) -> bool:
    """Returns whether a command line asks for a sweep, and not for one of MODES."""
    return not {argument.split("=")[0] for argument in arguments} & MODES


@contextmanager
def groups_required(arguments: Sequence[str]) -> Iterator[None]:
    """Turns the assertion that fails for a key below a group that is null into a ConfigError."""
    try:
        yield
    except AssertionError as error:
        if BELOW_NULL not in str(error):
            raise
        below = [each for each in arguments if "." in each.partition("=")[0]]
        below = [each for each in below if not each.startswith("hydra.")]
        reason = "its group is null; choose an option of the group first"
        raise ConfigError(f"{' or '.join(below)}: {reason}") from None


def subfolder(point: DictConfig) -> str:
    """Returns hydra.sweep.subdir, whose ${hydra:…} are resolved from the point."""
    instance = HydraConfig.instance()
    before = instance.cfg
    instance.set_config(point)
    try:
        return str(point.hydra.sweep.subdir)
    finally:
        instance.cfg = before


def schema_of(error: BaseException | None) -> type | None:
    """Returns the schema of the configuration that an error of OmegaConf arose in, if known."""
    node = getattr(error, "parent_node", None)
    root = node._get_root() if isinstance(node, Node) else None
    return OmegaConf.get_type(root) if root is not None else None
