"""Going on with a sweep that was interrupted: which of its points are still to be measured, and under what conditions.

A job that Slurm starts again goes on the same way.
"""

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from benchkit import record
from benchkit.errors import ConfigError
from benchkit.sweep import manifest

RETRY: Mapping[str, tuple[str, ...]] = {
    "none": record.UNFINISHED,
    "failed": (*record.UNFINISHED, "error", "crash", "timeout", "oom", "invalid"),
    "all": tuple(status for status in record.STATUSES if status != "ok"),
}
"""Per value of --retry the statuses of points that are measured again."""


@dataclass(frozen=True)
class Resume:
    """What --resume and its companions ask for.

    Attributes:
        folder: of the sweep.
        retry: which finished points are measured again; a key of RETRY.
        force: whether other software, hosts or agents than the sweep began with are accepted.
    """

    folder: Path
    retry: str = "none"
    force: bool = False

    def as_overrides(self) -> list[str]:
        """The settings of benchkit's sweeper that say the same to Hydra."""
        quoted = str(self.folder.resolve()).replace("\\", "\\\\").replace("'", "\\'")
        return [
            f"hydra.sweeper.resume='{quoted}'",
            f"hydra.sweep.dir='{quoted}'",
            f"hydra.sweeper.retry={self.retry}",
            f"hydra.sweeper.force={str(self.force).lower()}",
        ]


class Parser(argparse.ArgumentParser):
    """Raises ConfigError where argparse would exit."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def parse(arguments: Sequence[str]) -> list[str]:
    """A command line as Hydra is to see it: --resume and its companions become settings of the sweeper.

    Without overrides of its own, `--resume DIR` repeats the arguments that the sweep in DIR was started with.

    Raises:
        ConfigError: the flags make no sense, or DIR holds no sweep.
    """
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--resume", metavar="DIR", type=Path)
    parser.add_argument("--retry", choices=RETRY, default=None)
    parser.add_argument("--force", action="store_true")
    flags, others = parser.parse_known_args(list(arguments))
    if flags.resume is None:
        if flags.retry or flags.force:
            raise ConfigError(f"{'--retry' if flags.retry else '--force'}: allowed only with --resume DIR")
        return list(arguments)
    if not flags.resume.is_dir():
        raise ConfigError(f"--resume {flags.resume}: no such folder")
    if not any(is_override(each) for each in others):
        remembered = manifest.read(flags.resume).arguments
        if not remembered:
            raise ConfigError(
                f"--resume {flags.resume}: the sweep does not say how it was started; repeat its overrides"
            )
        others = [*others, *remembered]
    return [*others, *Resume(flags.resume, flags.retry or "none", flags.force).as_overrides()]


def is_override(argument: str) -> bool:
    """Whether an argument is for Hydra's grammar: no flag, nor a flag's value such as a folder."""
    return argument.startswith("~") or ("=" in argument and not argument.startswith("-"))


def without_settings(arguments: Iterable[str]) -> list[str]:
    """A command line without what as_overrides() adds."""
    return [
        each for each in arguments if not re.match(r"hydra\.(sweeper\.(resume|retry|force)|sweep\.dir='/.*')", each)
    ]


def settled_status(folder: Path, retry: str = "none", world_size: int | None = None) -> str:
    """How the point in a folder ended; "" where it is still to be measured, or again.

    Args:
        retry: which ends do not count; a key of RETRY.
        world_size: the number of ranks that the point would now have; None where that is not known.
    """
    content = record.read_in(folder) or {}
    status = content.get("status")
    if status not in record.STATUSES or status in RETRY[retry]:
        return ""
    if world_size is not None and finished_elsewhere(content, world_size):
        return ""
    return str(status)


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, list[str]]:
    """What a sweep began with and goes on with, by name, where they differ."""
    return {name: [before[name], now[name]] for name in before if name in now and before[name] != now[name]}


def described(differing: Mapping[str, Sequence[str]]) -> str:
    """Differences in words: "torch 2.12.0 then, 2.13.0 now"."""
    return "; ".join(
        f"{name} {before or 'none'} then, {now or 'none'} now" for name, (before, now) in differing.items()
    )


def finished_elsewhere(content: Mapping[str, Any], world_size: int) -> bool:
    """Whether a finished record of `world_size: auto` is of another number of ranks than there would be now."""
    config = content.get("config")
    asked = config.get("world_size") if isinstance(config, dict) else None
    return asked == "auto" and content.get("world_size") != world_size
