"""What a study consists of: its steps in order, and the parameters that fill their commands."""

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchkit.errors import ConfigError

BENCHKIT, ANALYSIS = "benchkit", "analysis"
"""The modules that a step may run."""
OUT = "out"
"""The parameter that stands for the study's folder."""
PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")
"""A parameter in a command; `${…}` is an interpolation of Hydra."""
NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Step:
    """One command of a study.

    Attributes:
        name: of the step, and of its folder below the study's.
        module: BENCHKIT or ANALYSIS.
        words: of the command behind the module, with placeholders.
    """

    name: str
    module: str
    words: tuple[str, ...]

    def arguments(self, values: Mapping[str, str], only_existing: bool = False) -> list[str]:
        """Returns the words with the parameters' values.

        Args:
            values: of all parameters, OUT among them.
            only_existing: leaves out overrides with files below the study's folder that an earlier
                step has not written yet.
        """
        found = []
        for word in self.words:
            filled = filled_in(word, values)
            if path := self.input_of(word, values):
                if only_existing and not Path(path).exists():
                    continue
                filled = f"{filled.partition('=')[0]}={as_value(path)}"
            found.append(filled)
        return found

    def missing(self, values: Mapping[str, str]) -> list[str]:
        """Returns the paths of overrides below the study's folder that no step has written yet."""
        paths = [self.input_of(word, values) for word in self.words]
        return [path for path in paths if path and not Path(path).exists()]

    def input_of(self, word: str, values: Mapping[str, str]) -> str:
        """Returns the path below the study's folder that an override of a sweep names, or ""."""
        value = word.partition("=")[2]
        if self.module != BENCHKIT or f"{{{OUT}}}" not in value:
            return ""
        return filled_in(value, values)


@dataclass(frozen=True)
class Study:
    """A study as its file of YAML describes it.

    Attributes:
        name: of the study.
        parameters: their values by name, "" where there is none by default.
        steps: in the order in which they run.
    """

    name: str
    parameters: dict[str, str]
    steps: tuple[Step, ...]

    def values(self, given: Mapping[str, str]) -> dict[str, str]:
        """Returns the parameters with the values that were typed in place of the file's.

        Raises:
            ConfigError: the study has no such parameter.
        """
        for name, value in given.items():
            if name not in self.parameters:
                near = difflib.get_close_matches(name, self.parameters, n=1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise ConfigError(
                    f"{name}={value}: no parameter of study {self.name}; {hint}"
                    f"allowed are {', '.join(self.parameters) or 'none'}"
                )
        return {**self.parameters, **given}


def read_study(name: str, files: Sequence[Path]) -> Study:
    """Reads the study of a name.

    Args:
        name: as typed.
        files: of all studies.

    Raises:
        ConfigError: there is no such study, or its file is wrong; the message says where.
    """
    paths = {path.stem: path for path in files}
    if name not in paths:
        near = difflib.get_close_matches(name, paths, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"study={name}: no such study; {hint}available: {', '.join(paths) or 'none'}"
        )
    path = paths[name]
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not readable ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict) or not set(content) <= {"parameters", "steps"}:
        raise ConfigError(f"{path}: allowed are the keys parameters and steps")
    given, commands = content.get("parameters") or {}, content.get("steps") or {}
    if not isinstance(given, dict) or not isinstance(commands, dict) or not commands:
        raise ConfigError(f"{path}: parameters and steps are name: value, with one step at least")
    parameters = {str(each): as_text(value) for each, value in given.items()}
    steps = [step_of(path, str(each), str(command)) for each, command in commands.items()]
    for step in steps:
        require_known(path, step, {*parameters, OUT})
    return Study(name, parameters, tuple(steps))


def step_of(path: Path, name: str, command: str) -> Step:
    """Returns a step of a study.

    Raises:
        ConfigError: its name or its command is wrong.
    """
    try:
        module, *words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"{path}: step {name}: not a command ({error})") from None
    if not NAME.fullmatch(name):
        raise ConfigError(f"{path}: step {name}: allowed are small letters, digits and _")
    if module not in (BENCHKIT, ANALYSIS):
        raise ConfigError(
            f"{path}: step {name}: {module}: a command begins with {BENCHKIT} or {ANALYSIS}"
        )
    return Step(name, module, tuple(words))


def filled_in(word: str, values: Mapping[str, str]) -> str:
    """Returns a word with the parameters' values in place of their names."""
    return PLACEHOLDER.sub(lambda match: values[match[1]], word)


def require_known(path: Path, step: Step, names: set[str]) -> None:
    """Raises ConfigError for a placeholder that stands for no parameter."""
    used = {match[1] for word in step.words for match in PLACEHOLDER.finditer(word)}
    if unknown := sorted(used - names):
        raise ConfigError(
            f"{path}: step {step.name}: {{{unknown[0]}}}: no such parameter; "
            f"allowed are {', '.join(sorted(names))}"
        )


def as_value(path: str) -> str:
    """Returns a path as a value of Hydra's grammar."""
    if re.fullmatch(r"[\w./:+-]+", path):
        return path
    quoted = path.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def as_text(value: object) -> str:
    """Returns a value of YAML as one types it on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def describe(path: Path) -> str:
    """Returns the help on a study: its comment, its parameters with theirs, and its steps."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line.removeprefix("# ") for line in lines)
