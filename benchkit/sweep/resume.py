"""Resume an interrupted sweep: parse --resume, and determine the points that are still open.

A job that Slurm restarts is resumed in the same way. `--resume DIR OVERRIDES` begins the sweep if
DIR holds none yet: a restarted container repeats its only command.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from benchkit.config.folders import without_config_dir
from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.naming import escape_unprintable
from benchkit.record.record import STATUSES, UNFINISHED, Record
from benchkit.secrets import has_secret, restore_secrets
from benchkit.sweep import manifest

RETRY: Mapping[str, tuple[str, ...]] = {
    "none": UNFINISHED,
    "failed": (*UNFINISHED, "error", "crash", "timeout", "oom", "invalid"),
    "all": tuple(status for status in STATUSES if status != "ok"),
}
"""Per value of --retry, the statuses of points that are measured again."""
DRY_RUN = "hydra.sweeper.dry_run"  # true, or the path of a file for the forecast of all points


@dataclass(frozen=True)
class Resume:
    """Values of --resume, --retry and --force; `retry` is a key of RETRY.

    In a `folder` without a sweep a new one begins. `force` accepts other software, hosts or agents
    than at the sweep's start.
    """

    folder: Path
    retry: str = "none"
    force: bool = False

    def as_overrides(self) -> list[str]:
        """Return the same settings as overrides of benchkit's sweeper."""
        quoted = str(self.folder.resolve()).replace("\\", "\\\\").replace("'", "\\'")
        return [
            f"hydra.sweeper.resume='{quoted}'",
            f"hydra.sweep.dir='{quoted}'",
            f"hydra.sweeper.retry={self.retry}",
            f"hydra.sweeper.force={str(self.force).lower()}",
        ]


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def parse(arguments: Sequence[str]) -> list[str]:
    """Convert --resume, --retry, --force and --dry-run to settings of the sweeper.

    `--resume DIR` repeats the arguments that the sweep in DIR was started with, unless there are
    overrides that do more than to fill in secrets, which the sweep does not store. Raise
    ConfigError for wrong combinations.
    """
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--resume", metavar="DIR", type=Path)
    parser.add_argument("--retry", choices=RETRY, default=None)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    flags, others = parser.parse_known_args(list(arguments))
    require_text(others)
    if flags.resume is None:
        if flags.retry or flags.force:
            flag = "--retry" if flags.retry else "--force"
            raise ConfigError(f"{flag}: allowed only with --resume DIR")
        return [*others, *dry_run(flags)]
    overrides = [argument for argument in others if is_override(argument)]
    if all(map(has_secret, overrides)):
        if not flags.resume.is_dir():
            raise ConfigError(f"--resume {flags.resume}: no such folder")
        other_flags = [argument for argument in others if argument not in overrides]
        before = original_arguments(flags.resume, other_flags)
        others = [*other_flags, *restore_secrets(before, overrides, f"--resume {flags.resume}")]
    settings = Resume(flags.resume, flags.retry or "none", flags.force)
    return [*others, *settings.as_overrides(), *dry_run(flags)]


def require_text(arguments: Sequence[str]) -> None:
    """Raise ConfigError for an argument with control characters, or with bytes that are no text."""
    for argument in arguments:
        if (shown := escape_unprintable(argument)) != argument:
            is_text = argument.encode(errors="replace").decode() == argument
            allowed = "text without control characters" if is_text else "text in UTF-8"
            raise ConfigError(f"{shown}: allowed is {allowed}")


def original_arguments(folder: Path, flags: Sequence[str]) -> list[str]:
    """Return the arguments that a sweep was started with, for this working directory.

    A --config-dir among `flags` replaces that of the sweep. Raise ConfigError if
    the sweep lacks its arguments, or its folder of YAML is gone.
    """
    before = manifest.read(folder)
    if not before.arguments:
        raise ConfigError(
            f"--resume {folder}: the sweep does not say how it was started; repeat its overrides"
        )
    others, config_dir = without_config_dir(before.arguments)
    others = [word for word in others if not word.startswith("hydra.sweep.dir=")]  # it is `folder`
    if not config_dir or without_config_dir(flags)[1]:
        return others
    return ["--config-dir", resolve_config_dir(config_dir, before.started_in, folder), *others]


def resolve_config_dir(config_dir: str, started_in: str, folder: Path) -> str:
    """Return where a --config-dir typed in `started_in` is; raise ConfigError if gone."""
    path = Path(started_in, config_dir).resolve()
    if not path.is_dir():
        raise ConfigError(
            f"{path}: no such folder any more, with which {folder} was started; "
            "allowed is --config-dir with its new place"
        )
    return str(path)


def dry_run(flags: argparse.Namespace) -> list[str]:
    return [f"{DRY_RUN}=true"] if flags.dry_run else []


def is_override(argument: str) -> bool:
    """Distinguish an override from a flag, and from a flag's value such as a folder."""
    return argument.startswith("~") or ("=" in argument and not argument.startswith("-"))


def settled_status(folder: Path, retry: str = "none", world_size: int | None = None) -> str:
    """Return the status of the point in a folder; "" if it is to be measured, or measured again.

    `retry` is a key of RETRY. `world_size` is the number of ranks that
    the point would have now; None if unknown.
    """
    record = files.read_from(folder)
    if record is None or record.status not in STATUSES or record.status in RETRY[retry]:
        return ""
    if world_size is not None and finished_elsewhere(record, world_size):
        return ""
    return record.status


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, list[str]]:
    return {
        name: [value, now[name]]
        for name, value in before.items()
        if name in now and value != now[name]
    }


def format_differences(differing: Mapping[str, Sequence[str]]) -> str:
    """Format differences: "torch 2.12.0 then, 2.13.0 now"."""
    return "; ".join(
        f"{name} {before or 'none'} then, {now or 'none'} now"
        for name, (before, now) in differing.items()
    )


def finished_elsewhere(record: Record, world_size: int) -> bool:
    """Return whether a point of `world_size: auto` ran with another number of ranks."""
    return record.config.get("world_size") == "auto" and record.world_size != world_size
