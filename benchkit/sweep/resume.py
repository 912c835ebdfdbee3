"""Going on with an interrupted sweep: which points are still to be measured, and how.

A job that Slurm starts again goes on in the same way.
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
"""Per value of --retry, the statuses of points that are measured again."""
OWN_SETTING = re.compile(r"hydra\.(sweeper\.(resume|retry|force)|sweep\.dir='/.*')")
"""An override that Resume.as_overrides() adds."""


@dataclass(frozen=True)
class Resume:
    """What --resume and its companions ask for.

    Attributes:
        folder: of the sweep.
        retry: which finished points are measured again; a key of RETRY.
        force: accepts other software, hosts or agents than those that the sweep began with.
    """

    folder: Path
    retry: str = "none"
    force: bool = False

    def as_overrides(self) -> list[str]:
        """Returns the same settings as overrides of benchkit's sweeper."""
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
    """Turns --resume and its companions into settings of the sweeper, which Hydra understands.

    Without overrides of its own, `--resume DIR` repeats the arguments that the sweep in DIR was
    started with.

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
            flag = "--retry" if flags.retry else "--force"
            raise ConfigError(f"{flag}: allowed only with --resume DIR")
        return list(arguments)
    if not flags.resume.is_dir():
        raise ConfigError(f"--resume {flags.resume}: no such folder")
    if not any(is_override(argument) for argument in others):
        remembered = manifest.read(flags.resume).arguments
        if not remembered:
            raise ConfigError(
                f"--resume {flags.resume}: the sweep does not say how it was started; "
                "repeat its overrides"
            )
        others = [*others, *remembered]
    settings = Resume(flags.resume, flags.retry or "none", flags.force)
    return [*others, *settings.as_overrides()]


def is_override(argument: str) -> bool:
    """Tells an override of Hydra's grammar from a flag, or a flag's value such as a folder."""
    return argument.startswith("~") or ("=" in argument and not argument.startswith("-"))


def without_settings(arguments: Iterable[str]) -> list[str]:
    """Returns a command line without the overrides that Resume.as_overrides() adds."""
    return [argument for argument in arguments if not OWN_SETTING.match(argument)]


def settled_status(folder: Path, retry: str = "none", world_size: int | None = None) -> str:
    """Returns how the point in a folder ended; "" if it is to be measured, or measured again.

    Args:
        folder: of the point.
        retry: which ends do not count; a key of RETRY.
        world_size: the number of ranks that the point would have now; None if unknown.
    """
    content = record.read_in(folder) or {}
    status = content.get("status")
    if status not in record.STATUSES or status in RETRY[retry]:
        return ""
    if world_size is not None and finished_elsewhere(content, world_size):
        return ""
    return str(status)


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns what differs between the beginning of a sweep and now, as [then, now] by name."""
    return {
        name: [value, now[name]]
        for name, value in before.items()
        if name in now and value != now[name]
    }


def described(differing: Mapping[str, Sequence[str]]) -> str:
    """Puts differences into words: "torch 2.12.0 then, 2.13.0 now"."""
    return "; ".join(
        f"{name} {before or 'none'} then, {now or 'none'} now"
        for name, (before, now) in differing.items()
    )


def finished_elsewhere(content: Mapping[str, Any], world_size: int) -> bool:
    """Tells whether a point of `world_size: auto` ran with another number of ranks than now."""
    config = content.get("config")
    asked = config.get("world_size") if isinstance(config, dict) else None
    return asked == "auto" and content.get("world_size") != world_size
