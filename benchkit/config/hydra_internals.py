"""All uses of Hydra beyond its documented interface.

The interface of Hydra's example plugins is used in benchkit.sweep, the wording of Hydra's errors in
benchkit.config.messages. tests/unit/config/test_hydra_internals.py pins all three.
"""

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser import types
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Transformer, ValueType
from hydra.errors import HydraException
from omegaconf import DictConfig, Node, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from benchkit.api.keys import RunConfig
from benchkit.config.command_line import TAKING_VALUES, complete_words
from benchkit.errors import ConfigError
from benchkit.secrets import mask_word

ERRORS = (HydraException, OmegaConfBaseException, YAMLError)
"""Exceptions that a wrong configuration raises in Hydra, beside OSError and ValueError."""
BELOW_NULL = "Unexpected type for root"
"""Text of the AssertionError of OmegaConf for a key below a group that is null."""
NO_PLUGIN = re.compile("Invalid plugin|Unknown plugin class")
"""Text of the RuntimeError of Hydra for a `_target_` that is no launcher or sweeper."""
TOO_LARGE = re.compile("[0-9]{309}")
PROGRAM = "benchkit"
COMPLETED = "COMP_LINE"
MOST_VALUES = 100_000
"""Limit for one key of a sweep; a range may be infinite."""
MULTIRUN = ("-m", "--multirun")
MODES = {"--cfg", "-c", "--info", "-i", "--run", "-r", "--shell-completion", "-sc", "hydra.mode"}
"""Flags and keys by which Hydra does something other than a sweep."""


def show_nothing(folder: Path) -> None: ...


@dataclass
class SweepTask:
    """The task that Hydra passes to the sweeper. It holds the result, which Hydra would discard.

    Attributes:
        show: prints the table of the sweep's folder, once its points have ended.
        configs: configurations of all runs, once they are checked; empty if Hydra ran no sweep.
        runs_here: whether points run in this process, and not in submitted jobs.
        statuses: statuses of all points that have ended.
    """

    show: Callable[[Path], None] = show_nothing
    configs: Sequence[RunConfig] = ()
    runs_here: bool = True
    statuses: list[str] = field(default_factory=list)

    def __call__(self, composed: DictConfig) -> None:
        """Refuse to run a point for Hydra, because the sweeper runs all points itself."""
        raise ConfigError(
            "hydra.mode and hydra/sweeper are benchkit's: one point is a sweep of one, "
            "and checked first"
        )


def run(folder: Path, arguments: Sequence[str], task: SweepTask) -> None:
    """Run Hydra, whose sweeper stores its result in `task`.

    Raise Hydra's errors instead of exiting.
    """
    start = hydra.main(config_path=str(folder), config_name="config", version_base="1.3")(task)
    typed, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [PROGRAM, *flags_first(arguments)]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    if line := os.environ.get(COMPLETED):
        print("\n".join(complete_words(line)))
        os.environ[COMPLETED] = simplify_for_completion(line)
    try:
        with explain_internal_faults(arguments):
            start()
    finally:
        sys.argv = typed
        del os.environ["HYDRA_FULL_ERROR"]
        if full_error is not None:
            os.environ["HYDRA_FULL_ERROR"] = full_error


def flags_first(arguments: Sequence[str]) -> list[str]:
    """Put flags with their values in front, and -m where it is missing.

    Hydra 1.3 accepts no override after a flag (hydra #3053, fixed in 1.4). Without -m it reports
    values with commas as ambiguous, and hides any other error.
    """
    flags: list[str] = []
    overrides: list[str] = []
    previous = ""
    for argument in arguments:
        is_flag = argument.startswith("-") or previous in TAKING_VALUES
        (flags if is_flag else overrides).append(argument)
        previous = argument
    others = [*(flag for flag in flags if flag not in MULTIRUN), *overrides]
    return ["-m", *others] if is_multirun(others) else others


def simplify_for_completion(line: str) -> str:
    """Return a line of shell completion in a form that Hydra 1.3 can compose.

    It accepts neither -m between overrides nor several values of a key, so the first one stands for
    all. It knows neither the flags nor the commands of benchkit.
    """
    program, *before, last = line.split(" ")
    words = [
        word
        for number, word in enumerate(before)
        if set(word) & set("='\"") or is_config_dir(before, number)
    ]
    words = [word if set(word) & set("'\"[({") else word.partition(",")[0] for word in words]
    return " ".join([program, *words, "" if last.startswith("-") else last])


def is_config_dir(words: Sequence[str], number: int) -> bool:
    return bool(set(words[max(0, number - 1) : number + 1]) & {"--config-dir", "-cd"})


def is_multirun(arguments: Sequence[str]) -> bool:
    return not {argument.split("=")[0] for argument in arguments} & MODES


@contextmanager
def explain_internal_faults(arguments: Sequence[str]) -> Iterator[None]:
    """Convert exceptions of OmegaConf and Hydra that name no key to ConfigError.

    An assertion fails for a key below a group that is null, and a float has at most 309 digits.
    """
    try:
        yield
    except OverflowError:
        large = [word.partition("=")[0] for word in arguments if TOO_LARGE.search(word)]
        reason = "a number of more digits than a float has; allowed are at most 308"
        raise ConfigError(f"{' or '.join(large) or 'a value'}: {reason}") from None
    except AssertionError as error:
        if BELOW_NULL not in str(error):
            raise
        below = [word for word in arguments if "." in word.partition("=")[0]]
        below = [word for word in below if not word.startswith("hydra.")]
        reason = "its group is null; choose an option of the group first"
        raise ConfigError(f"{' or '.join(below)}: {reason}") from None
    except RuntimeError as error:
        if not NO_PLUGIN.match(str(error)):
            raise
        reason = "allowed are benchkit's sweeper and its launchers, by launcher=local|slurm|…"
        raise ConfigError(f"hydra/launcher, hydra/sweeper: {error}; {reason}") from None


def subfolder(point: DictConfig) -> str:
    """Return hydra.sweep.subdir, whose ${hydra:…} are resolved from the point."""
    instance = HydraConfig.instance()
    before = instance.cfg
    instance.set_config(point)
    try:
        return str(point.hydra.sweep.subdir)
    finally:
        instance.cfg = before


def schema_of(error: BaseException | None) -> type | None:
    """Return the schema of the configuration that an error of OmegaConf arose in, if known."""
    node = getattr(error, "parent_node", None)
    root = node._get_root() if isinstance(node, Node) else None
    return OmegaConf.get_type(root) if root is not None else None


Override = types.Override


def expand_sweep(loader: Any, arguments: Sequence[str]) -> Iterator[tuple[Override, ...]]:
    """Yield the overrides of every point: all combinations of the values in the arguments.

    They equal the parsed lines of BasicSweeper for each point. The last argument of a key
    counts. Raise HydraException for a sweep over an interval.
    """
    parsed = parse(loader, arguments)
    axes = {override.get_key_element(): values_of(override) for override in parsed}
    return itertools.product(*axes.values())


def values_of(override: Override) -> list[Override]:
    """Return one override without a sweep for each value of an override."""
    if override.value_type is None:  # a deletion
        return [override]
    values: list[Any] = [override._value]
    if override.is_sweep_override():
        if not override.is_discrete_sweep():
            allowed = "allowed are values, a choice or a range"
            raise HydraException(f"{override.input_line}: {allowed}")
        values = list(itertools.islice(override.sweep_iterator(), MOST_VALUES + 1))
        if len(values) > MOST_VALUES:
            raise HydraException(f"{override.input_line}: more than {MOST_VALUES:,} values")
    key = override.get_key_element()
    return [
        replace(
            override,
            value_type=ValueType.ELEMENT,
            _value=value,
            input_line=f"{key}={Transformer.str(value)}",
        )
        for value in values
    ]


def raw_overrides_by_line(
    loader: Any, lines: Sequence[str], texts: Sequence[str]
) -> dict[str, Override]:
    """Return overrides with their interpolations unresolved, by their resolved lines.

    An override with several values is left out, because points differ in it.

    Args:
        texts: each of the lines, unresolved.
    """
    raw_overrides = {}
    for line, text in zip(lines, texts, strict=True):
        if "${" in text and len(values := values_of(*parse(loader, [line]))) == 1:
            try:
                [typed] = parse(loader, [text])
            except HydraException:  # it may be valid once it is resolved
                typed = replace(values[0], _value=text.partition("=")[2], input_line=text)
            raw_overrides[str(values[0].input_line)] = typed
    return raw_overrides


def parse(loader: Any, lines: Sequence[str]) -> list[Override]:
    return list(OverridesParser.create(loader).parse_overrides(list(lines)))


@dataclass(frozen=True)
class Overrides:
    """The parsed overrides of a point.

    Attributes:
        for_benchkit: overrides that are not for Hydra itself.
        shape: lines that choose groups, add or delete keys, or are for Hydra.
        values: overrides that only set values.
    """

    for_benchkit: list[Override]
    shape: tuple[str, ...]
    values: list[Override]

    def lines(self) -> list[str]:
        return [str(override.input_line) for override in self.for_benchkit]

    def set_values(self, loader: Any, config: DictConfig) -> None:
        for override in self.values:
            set_value(loader, override, config)

    def dirname(self, point: DictConfig) -> str:
        naming = point.hydra.job.config.override_dirname
        masked = [
            replace(override, input_line=mask_word(str(override.input_line)))
            for override in self.for_benchkit
        ]
        name = get_overrides_dirname(masked, naming.exclude_keys, naming.item_sep, naming.kv_sep)
        return name.replace("${", r"\${")  # else OmegaConf puts the value in


def sort_overrides(
    overrides: Sequence[Override], is_value: Callable[[Override], bool]
) -> Overrides:
    for_benchkit = [override for override in overrides if not override.is_hydra_override()]
    values = [override for override in for_benchkit if is_value(override)]
    shape = tuple(str(override.input_line) for override in overrides if override not in values)
    return Overrides(for_benchkit, shape, values)


def set_value(loader: Any, override: Override, config: DictConfig) -> None:
    with explain_internal_faults([str(override.input_line)]):
        loader._apply_overrides_to_config([override], config)


def sets_a_value(loader: Any, override: Override) -> bool:
    """Return whether an override is `key=value`, and no choice of group, addition or deletion."""
    if override.is_add() or override.is_force_add() or override.is_delete() or override.package:
        return False
    return not loader.repository.group_exists(override.key_or_group)
