"""The arms of a comparison: what each one changes in a run."""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchkit.api.keys import OVERRULED, replacement_override
from benchkit.errors import ConfigError
from benchkit.git import GitFailed, check_out, git, without_repository
from benchkit.secrets import mask_value, mask_words
from benchkit.sweep.resume import is_override

KINDS = ("plain", "env", "venv", "tree", "git", "set")
ALLOWED = (
    "plain, env:NAME=VALUE,…, venv:PATH, tree:PATH, git:REV or set:key=value,… "
    "(python -m benchkit compare --help)"
)
OF_COMPARE = {
    "seed": "each pair has a seed of its own, from --seed",
    "hydra.sweep.dir": "--dir names the folder of the comparison",
    "launcher": "all runs are made here; inside an allocation: srun … python -m benchkit compare …",
    "hydra/launcher": "all runs are made here",
    "--retry": "it is of sweeps",
    "--force": "it is of sweeps",
    "--dry-run": "it is of sweeps; type it with the overrides, without compare",
}
"""Keys that cannot be overridden, and why."""
NEXT_VARIABLE = re.compile(r",(?=[A-Za-z_]\w*=)")
NEXT_OVERRIDE = re.compile(r",(?=\+{0,2}[A-Za-z_][\w./@]*=)")
"""The comma before the next item: other commas are part of a value."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One of the versions of a program that are compared.

    Attributes:
        text: the arm as it was typed, without secrets.
        folder: working directory, from which modules are imported first; "": the comparison's.
        worktree: root of the checkout of a `git:` arm.
        overrides: overrides that it adds to the command line, or replaces there.
    """

    text: str
    python: str = sys.executable
    folder: str = ""
    worktree: str = ""
    commit: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)

    def without_secrets(self) -> "Arm":
        environment = {name: mask_value(name, value) for name, value in self.environment.items()}
        overrides = mask_words(self.overrides)
        text = mask_arm(self.text)
        return replace(self, text=text, environment=environment, overrides=overrides)

    @property
    def is_here(self) -> bool:
        """Whether it runs the code and the interpreter of the comparison itself."""
        return not self.folder and self.python == sys.executable

    def arguments(self, common: Sequence[str]) -> list[str]:
        by_key = {key_of(override): override for override in self.overrides}
        return [by_key.pop(key_of(argument), argument) for argument in common] + list(
            by_key.values()
        )

    def variables(self) -> dict[str, str]:
        environment = without_repository(os.environ) | self.environment
        if self.python != sys.executable:
            programs = Path(self.python).parent
            path = os.pathsep.join(filter(None, (str(programs), environment.get("PATH"))))
            environment |= {"VIRTUAL_ENV": str(programs.parent), "PATH": path}
        if self.folder:
            paths = filter(None, (self.folder, environment.get("PYTHONPATH")))
            environment["PYTHONPATH"] = os.pathsep.join(paths)
        return environment


def key_of(argument: str) -> str:
    """Return the key that an override sets; a flag as it is."""
    return argument.partition("=")[0].lstrip("+") if is_override(argument) else argument


def refuse_key(override: str) -> None:
    key = key_of(override)
    if key in OF_COMPARE and override != "launcher=local":
        raise ConfigError(f"{override}: not with compare: {OF_COMPARE[key]}")


def is_arm(argument: str) -> bool:
    kind, colon, _ = argument.partition(":")
    return argument == "plain" or (bool(colon) and kind in KINDS)


def mask_arm(text: str) -> str:
    """Mask the secrets in the variables and overrides of an arm."""
    kind, colon, value = text.partition(":")
    following = {"env": NEXT_VARIABLE, "set": NEXT_OVERRIDE}.get(kind)
    return kind + colon + ",".join(mask_words(following.split(value))) if following else text


def parse_arm(typed: str, trees: Path) -> Arm:
    """Parse an arm and write nothing; raise ConfigError for a wrong one.

    `trees` holds the checkouts of `git:` arms.
    """
    kind, _, value = typed.partition(":")
    text = mask_arm(typed)
    if text == "plain":
        return Arm(text=text)
    if not value:
        raise ConfigError(f"{text}: no arm; allowed are {ALLOWED}")
    if kind == "env":
        pairs = [item.partition("=") for item in NEXT_VARIABLE.split(value)]
        if not all(name.isidentifier() and equals for name, equals, _ in pairs):
            raise ConfigError(f"{text}: allowed is env:NAME=VALUE,NAME=VALUE")
        for name, _, content in pairs:
            if OVERRULED.get(name):
                raise ConfigError(f"{text}: allowed is set:{replacement_override(name, content)}")
        return Arm(text=text, environment={name: content for name, _, content in pairs})
    if kind == "set":
        overrides = NEXT_OVERRIDE.split(value)
        if not all(is_override(override) and key_of(override) for override in overrides):
            raise ConfigError(f"{text}: allowed is set:key=value,key=value")
        for override in overrides:
            refuse_key(override)
        return Arm(text=text, overrides=overrides)
    if kind == "git":
        return git_arm(text, value, trees)
    path = Path(value).expanduser()
    if kind == "venv":
        python = path / "bin" / "python"
        if not os.access(python, os.X_OK):
            raise ConfigError(f"{text}: no virtual environment; there is no program {python}")
        return Arm(text=text, python=str(python.absolute()))
    if not path.is_dir():
        raise ConfigError(f"{text}: no such folder")
    return Arm(text=text, folder=str(path.resolve()))


def git_arm(text: str, revision: str, trees: Path) -> Arm:
    """Return the arm of a commit of the repository that this process works in.

    Its runs start in the same folder of the checkout as the comparison does.
    """
    if revision.startswith("-"):
        raise ConfigError(f"{text}: no such commit here")
    working_folder = Path.cwd()
    try:
        commit = git(working_folder, "rev-parse", "--verify", "--quiet", revision + "^{commit}")
        prefix = git(working_folder, "rev-parse", "--show-prefix")
    except GitFailed as error:
        raise ConfigError(f"{text}: {str(error) or 'no such commit here'}") from None
    worktree = trees / commit[:12]
    return Arm(text=text, folder=str(worktree / prefix), worktree=str(worktree), commit=commit)


def make_folder(arm: Arm) -> None:
    """Make the checkout of a `git:` arm, unless it is there.

    Raise ConfigError if git fails, or an arm's folder is missing.
    """
    if arm.worktree and not Path(arm.worktree).exists():
        try:
            check_out(Path.cwd(), arm.commit, Path(arm.worktree))
        except GitFailed as error:
            raise ConfigError(f"{arm.text}: {error}") from None
    if arm.folder and not Path(arm.folder).is_dir():
        raise ConfigError(f"{arm.text}: {arm.folder} is not there")
