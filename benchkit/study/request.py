"""What the command line of a study asks for."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.errors import ConfigError
from benchkit.study.plan import OUT, Step, Study, read_study
from benchkit.study.steps import Progress, read_progress
from benchkit.sweep.resume import RETRY, Parser, Resume, found_again
from launch.topology import detect_launcher, require_launcher

PREFIX = "study="


@dataclass(frozen=True)
class Request:
    """What a command line asks for.

    Attributes:
        study: to run.
        parameters: the values of all.
        config_dir: of --config-dir, for every sweep; "" without.
        folder: of the study.
        asked: what of finished sweeps is to be measured again.
        progress: of the study that is continued; None for a fresh one.
        dry_run: whether the steps are only shown.
    """

    study: Study
    parameters: dict[str, str]
    config_dir: str
    folder: Path
    asked: Resume
    progress: Progress | None
    dry_run: bool

    @property
    def flags(self) -> list[str]:
        """For every sweep."""
        return ["--config-dir", self.config_dir] if self.config_dir else []

    def values(self) -> dict[str, str]:
        """Returns what the placeholders of commands stand for."""
        return self.parameters | {OUT: str(self.folder)}

    def folder_of(self, step: Step) -> Path:
        """Returns the folder that the sweep of a step writes into."""
        return self.folder / step.name


def parse(arguments: Sequence[str], files: Sequence[Path]) -> Request:
    """Reads the command line of a study.

    Raises:
        ConfigError: it is wrong; the message says what is allowed.
        LaunchError: other processes may have been started beside this one.
    """
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--retry", choices=RETRY)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("-m", "--multirun", action="store_true")
    options, words = parser.parse_known_args(list(arguments))
    if wrong := [word for word in words if "=" not in word or word.startswith("-")]:
        raise ConfigError(f"{wrong[0]}: allowed are study=NAME, parameter=value and --resume DIR")
    started = detect_launcher() if options.dry_run else require_launcher()
    if started.count > 1:
        raise ConfigError("study: one process runs it; its sweeps take launcher=… as a parameter")
    given = dict(word.split("=", 1) for word in words)
    progress = read_progress(options.resume) if options.resume else None
    if progress is None and (options.retry or options.force):
        raise ConfigError("--retry, --force: allowed only with --resume DIR")
    config_dir = str(Path(options.config_dir).resolve()) if options.config_dir else ""
    if progress and progress.config_dir and not config_dir:
        config_dir = found_again(progress.config_dir, "", options.resume)
        files = [*files, *Path(config_dir).glob("study/*.yaml")]
    name = given.pop("study", progress.study if progress else "")
    study = read_study(name, files)
    parameters = study.values((progress.parameters if progress else {}) | given)
    if progress:
        require_same(progress, name, parameters, options.resume)
    fresh = f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S.%f}_{name}"
    folder = (options.resume or Path("outputs") / fresh).resolve()
    asked = Resume(folder, options.retry or "none", options.force)
    return Request(study, parameters, config_dir, folder, asked, progress, options.dry_run)


def require_same(progress: Progress, name: str, parameters: dict[str, str], folder: Path) -> None:
    """Raises ConfigError where a study would be continued as another one."""
    if name != progress.study:
        raise ConfigError(f"study={name}: {folder} holds study={progress.study}")
    for key, value in parameters.items():
        if value != (before := progress.parameters.get(key, value)):
            raise ConfigError(f"{key}={value}: the study in {folder} began with {key}={before}")
