"""`python -m benchkit study=NAME` runs the steps of a study in order, and can be resumed."""

import datetime
import difflib
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import yaml

from benchkit import child
from benchkit.child import ANALYSIS, BENCHKIT
from benchkit.errors import ConfigError, UnknownKey
from benchkit.point.point_folder import claim_folder
from benchkit.record import files
from benchkit.secrets import has_secret, mask_value, mask_words, restore_secrets
from benchkit.sweep import manifest, resume
from benchkit.sweep.check import check
from benchkit.sweep.forecast import Total
from benchkit.sweep.resume import DRY_RUN, RETRY, Parser, Resume, resolve_config_dir
from benchkit.sweep.status import exit_code
from benchkit.sweep.sweep_folder import remember_latest
from launch import trust
from launch.launcher_env import detect_launcher, require_launcher

OUT = "out"
"""Parameter with the study's folder."""
PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")
"""A parameter in a command; `${…}` is an interpolation of Hydra."""
NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class StudyStep:
    """One command of a study.

    Attributes:
        name: name of the step and of its folder.
        words: arguments of the module, with placeholders for parameters.
        overrides: overrides of the study's command line that this sweep accepts.
    """

    name: str
    module: str
    words: tuple[str, ...]
    overrides: tuple[str, ...] = ()

    def arguments(self, values: Mapping[str, str], only_existing: bool = False) -> list[str]:
        """Fill the parameters' values, including OUT, into the words.

        `only_existing` omits overrides with files that no earlier step has written yet.
        """
        words = []
        for word in self.words:
            filled = fill_placeholders(word, values)
            if path := self.input_of(word, values):
                if only_existing and not Path(path).exists():
                    continue
                filled = f"{filled.partition('=')[0]}={as_value(path)}"
            words.append(filled)
        return [*words, *self.overrides]

    def sets(self, key: str) -> str:
        """Return the word by which the study itself sets a key of this sweep, or ""."""
        return next((word for word in self.words if key_of(word) == key), "")

    def missing_inputs(self, values: Mapping[str, str]) -> list[str]:
        paths = [self.input_of(word, values) for word in self.words]
        return [path for path in paths if path and not Path(path).exists()]

    def input_of(self, word: str, values: Mapping[str, str]) -> str:
        """Return the path below the study's folder that an override of a sweep names, or ""."""
        value = word.partition("=")[2]
        if self.module != BENCHKIT or f"{{{OUT}}}" not in value:
            return ""
        return fill_placeholders(value, values)


@dataclass(frozen=True)
class Study:
    """A study, read from its YAML file; a parameter without a default is ""."""

    name: str
    parameters: dict[str, str]
    steps: tuple[StudyStep, ...]

    def split(self, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Split a command line into values of parameters and overrides of the sweeps' keys."""
        pairs = {word: word.partition("=") for word in words}
        given = {name: value for name, _, value in pairs.values() if name in self.parameters}
        return given, [word for word, (name, *_) in pairs.items() if name not in self.parameters]

    def select_steps(self, names: Sequence[str]) -> tuple[StudyStep, ...]:
        """Return the steps of these names, in the study's order; raise ConfigError for others."""
        allowed = [step.name for step in self.steps]
        if unknown := [name for name in names if name not in allowed]:
            raise ConfigError(
                f"--steps {unknown[0]}: no step of study {self.name}; "
                f"allowed are {', '.join(allowed)}, with commas between"
            )
        return tuple(step for step in self.steps if step.name in names)


def key_of(override: str) -> str:
    return override.partition("=")[0].lstrip("+~")


def read_study(name: str, files: Sequence[Path]) -> Study:
    """Read the study of a name; raise ConfigError without one, or for a wrong file."""
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
    defaults, commands = content.get("parameters") or {}, content.get("steps") or {}
    if not isinstance(defaults, dict) or not isinstance(commands, dict) or not commands:
        raise ConfigError(f"{path}: parameters and steps are name: value, with one step at least")
    parameters = {str(name): as_text(value) for name, value in defaults.items()}
    steps = [step_of(path, str(name), str(command)) for name, command in commands.items()]
    for step in steps:
        require_known_parameters(path, step, {*parameters, OUT})
    return Study(name, parameters, tuple(steps))


def step_of(path: Path, name: str, command: str) -> StudyStep:
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
    return StudyStep(name, module, tuple(words))


def fill_placeholders(word: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: values[match[1]], word)


def require_known_parameters(path: Path, step: StudyStep, names: set[str]) -> None:
    used = {match[1] for word in step.words for match in PLACEHOLDER.finditer(word)}
    if unknown := sorted(used - names):
        raise ConfigError(
            f"{path}: step {step.name}: {{{unknown[0]}}}: no such parameter; "
            f"allowed are {', '.join(sorted(names))}"
        )


def as_value(path: str) -> str:
    """Return a path as a value of Hydra's grammar."""
    if re.fullmatch(r"[\w./:+-]+", path):
        return path
    quoted = path.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def as_text(value: object) -> str:
    """Return a value of YAML as it is typed on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def describe(path: Path) -> str:
    """Return the help on a study: its comment, its parameters with theirs, and its steps."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line.removeprefix("# ") for line in lines)


FILE_NAME = manifest.STUDY
REPORT_S = 5.0  # duration of a step that writes a report


@dataclass
class StudyProgress:
    """Progress of a study: its finished steps; `config_dir` is the value of --config-dir."""

    study: str
    parameters: dict[str, str]
    finished: list[str] = field(default_factory=list)
    config_dir: str = ""
    overrides: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        parameters = {name: mask_value(name, value) for name, value in self.parameters.items()}
        masked = replace(self, parameters=parameters, overrides=mask_words(self.overrides))
        content = msgspec.json.encode(masked)
        files.write_atomically(folder / FILE_NAME, msgspec.json.format(content, indent=2))

    def with_secrets(self, words: Sequence[str], place: str) -> "StudyProgress":
        """Return a copy with masked words replaced by those of this command line.

        Raise ConfigError if one is missing.
        """
        parameter_words = [f"{name}={value}" for name, value in self.parameters.items()]
        secret_words = [word for word in words if has_secret(word)]
        restored = restore_secrets([*parameter_words, *self.overrides], secret_words, place)
        pairs = [word.partition("=") for word in restored[: len(parameter_words)]]
        parameters = {name: value for name, _, value in pairs}
        return replace(self, parameters=parameters, overrides=restored[len(parameter_words) :])


def read_progress(folder: Path) -> StudyProgress | None:
    """Read the progress of the study in a folder; None without a study.

    Raise ConfigError if it is the folder of a sweep, or the file is unreadable.
    """
    path = folder / FILE_NAME
    if not path.exists():
        if manifest.has_sweep(folder):
            raise ConfigError(f"--resume {folder}: holds a sweep; allowed is the folder of a study")
        return None
    try:
        return files.read_trusted(path, StudyProgress)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a study's file ({error})") from None


def run_step(
    step: StudyStep, values: Mapping[str, str], folder: Path, flags: Sequence[str], options: Resume
) -> int:
    """Run a step to its end; return its exit code. A sweep in its folder is continued.

    Raise OSError if the folder is a link.
    """
    arguments = step.arguments(values)
    if step.module == BENCHKIT:
        files.refuse_link(folder)
        resumed = Resume(folder, options.retry, options.force)
        arguments = [*flags, *arguments, *resume_flags(resumed)]
    return run_module(step.module, arguments)


def run_module(module: str, arguments: Sequence[str]) -> int:
    return child.run(child.module_command(module, arguments))


def resume_flags(options: Resume) -> list[str]:
    """Return the flags by which a sweep begins in a folder, or is resumed there."""
    flags = ["--resume", str(options.folder), "--retry", options.retry]
    return [*flags, "--force"] if options.force else flags


def statuses_of(step: StudyStep, folder: Path) -> list[str]:
    """Return the statuses of the points of a sweep's step; "" for an open point."""
    if step.module == ANALYSIS or not (folder / manifest.FILE_NAME).exists():
        return []
    points = manifest.read(folder).points
    return [resume.settled_status(folder / point.folder) for point in points]


def has_ended(step: StudyStep, folder: Path, code: int) -> bool:
    """Return whether a step has ended, so that later steps may run; its points may have failed."""
    if step.module == ANALYSIS:
        return code == 0
    statuses = statuses_of(step, folder)
    return code in (0, 1) and bool(statuses) and all(statuses)


PREFIX = "study="


@dataclass(frozen=True)
class StudyRequest:
    """A parsed command line of a study.

    Attributes:
        progress: None for a new study.
        overrides: overrides of keys of sweeps; the study's parameters are in `parameters`.
        selected_steps: steps to run even if they have ended; empty: all that have not ended.
    """

    study: Study
    parameters: dict[str, str]
    config_dir: str
    folder: Path
    resume_options: Resume
    progress: StudyProgress | None
    dry_run: bool
    overrides: list[str] = field(default_factory=list)
    selected_steps: tuple[StudyStep, ...] = ()

    @property
    def flags(self) -> list[str]:
        return ["--config-dir", self.config_dir] if self.config_dir else []

    def values(self) -> dict[str, str]:
        return self.parameters | {OUT: str(self.folder)}

    def folder_of(self, step: StudyStep) -> Path:
        return self.folder / step.name

    def is_due(self, step: StudyStep, finished: Sequence[str]) -> bool:
        names = [selected.name for selected in self.selected_steps]
        return step.name in names if names else step.name not in finished


def parse(arguments: Sequence[str], files: Sequence[Path]) -> StudyRequest:
    """Parse the command line of a study; raise ConfigError or LaunchError if it cannot run."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--retry", choices=RETRY)
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--steps", default="")
    parser.add_argument("-m", "--multirun", action="store_true")
    options, words = parser.parse_known_args(list(arguments))
    if wrong := [word for word in words if "=" not in word or word.startswith("-")]:
        raise ConfigError(
            f"{wrong[0]}: allowed are study=NAME, key=value, --steps NAMES and --resume DIR"
        )
    context = detect_launcher() if options.dry_run else require_launcher()
    if context.num_processes > 1:
        raise ConfigError("study: one process runs it; its sweeps take launcher=… as a parameter")
    progress = read_progress(options.resume) if options.resume else None
    if options.resume is None and (options.retry or options.force):
        raise ConfigError("--retry, --force: allowed only with --resume DIR")
    config_dir = str(Path(options.config_dir).resolve()) if options.config_dir else ""
    if progress and progress.config_dir and not config_dir:
        config_dir = resolve_config_dir(progress.config_dir, "", options.resume)
        files = [*files, *Path(config_dir).glob("study/*.yaml")]
    names = [word.removeprefix(PREFIX) for word in words if word.startswith(PREFIX)]
    name = names[-1] if names else progress.study if progress else ""
    study = read_study(name, files)
    words = [word for word in words if not word.startswith(PREFIX)]
    progress = progress and progress.with_secrets(words, f"--resume {options.resume}")
    given, overrides = study.split(words)
    parameters = study.parameters | (progress.parameters if progress else {}) | given
    if progress:
        require_same(progress, name, parameters, overrides, options.resume)
        overrides = progress.overrides
    selected = study.select_steps(options.steps.split(",")) if options.steps else ()
    new_name = f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S.%f}_{name}"
    folder = (options.resume or Path("outputs") / new_name).resolve()
    resume_options = Resume(folder, options.retry or "none", options.force)
    return StudyRequest(
        study,
        parameters,
        config_dir,
        folder,
        resume_options,
        progress,
        options.dry_run,
        overrides,
        selected,
    )


def require_same(
    progress: StudyProgress,
    name: str,
    parameters: dict[str, str],
    overrides: Sequence[str],
    folder: Path,
) -> None:
    if name != progress.study:
        raise ConfigError(f"study={name}: {folder} holds study={progress.study}")
    for key, value in parameters.items():
        if value != (before := progress.parameters.get(key, value)):
            raise ConfigError(f"{key}={value}: the study in {folder} began with {key}={before}")
    if new := [override for override in overrides if override not in progress.overrides]:
        before = " ".join(progress.overrides) or "no key beside its parameters"
        raise ConfigError(f"{new[0]}: the study in {folder} began with {before}")


def is_study(arguments: Sequence[str]) -> bool:
    """Return whether a command line runs a study, by its name or by its folder."""
    if any(word.startswith(PREFIX) for word in arguments):
        return True
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--resume", type=Path)
    try:
        folder = parser.parse_known_args(list(arguments))[0].resume
    except ConfigError:
        return False
    return folder is not None and (folder / FILE_NAME).exists()


def main(arguments: Sequence[str], files: Sequence[Path]) -> int:
    """Run a study; `files` are the YAML files of all studies.

    Return the exit code of the step that stops the study; otherwise as for a sweep of all points.

    Raises:
        ConfigError: the study or a key does not exist, or a step's command is wrong.
        KeyboardInterrupt: after the running step has stored its records.
    """
    request = parse(arguments, files)
    refuse_wrong_steps(request)
    request = with_overrides(request)
    if request.dry_run:
        return show(request)
    trust.make_folder(request.folder)
    with claim_folder(request.folder):
        remember_latest(request.folder)
        if code := run(request):
            return code
    print(f"\nstudy {request.study.name} has ended: {request.folder}")
    steps = request.study.steps
    return exit_code(
        [status for step in steps for status in statuses_of(step, request.folder_of(step))]
    )


def refuse_wrong_steps(request: StudyRequest) -> None:
    for step in request.study.steps:
        words = step.arguments(request.values(), only_existing=True)
        if step.module != BENCHKIT:
            continue
        try:
            check([*request.flags, *words])
        except ConfigError as error:
            raise ConfigError(f"study={request.study.name}, step {step.name}: {error}") from None


def with_overrides(request: StudyRequest) -> StudyRequest:
    """Pass each override to the sweeps that have its key and do not set it themselves.

    Raises:
        ConfigError: no sweep accepts an override, or one refuses its value.
    """
    study, steps = request.study, []
    refusals: dict[str, str] = {}
    for step in study.steps:
        words = step.arguments(request.values(), only_existing=True)
        accepted: list[str] = []
        # Groups first: the keys of a launcher exist where it is chosen.
        for override in sorted(request.overrides, key=lambda text: "." in key_of(text)):
            if step.module != BENCHKIT:
                continue
            if word := step.sets(key_of(override)):
                refusals.setdefault(override, set_by_study_message(override, study, word))
                continue
            try:
                check([*request.flags, *words, *accepted, override])
            except UnknownKey as error:
                refusals.setdefault(override, str(error))
            else:
                accepted.append(override)
        steps.append(replace(step, overrides=tuple(accepted)))
    for override in request.overrides:
        if not any(override in step.overrides for step in steps):
            raise ConfigError(
                f"study={study.name}: {refusals.get(override, override)}; the study takes "
                f"{', '.join(study.parameters)} and the other keys of its sweeps"
            )
    study = replace(study, steps=tuple(steps))
    selected = study.select_steps([step.name for step in request.selected_steps])
    return replace(request, study=study, selected_steps=selected)


def set_by_study_message(override: str, study: Study, word: str) -> str:
    names = [match[1] for match in PLACEHOLDER.finditer(word) if match[1] in study.parameters]
    by = f"with its parameter {names[0]}" if names else "which is fixed"
    return f"{override}: the study sets this key by {word}, {by}"


def run(request: StudyRequest) -> int:
    """Run the steps that have not ended; return the exit code of one that stops the study."""
    progress = request.progress or StudyProgress(request.study.name, request.parameters)
    progress.config_dir = request.config_dir
    progress.overrides = request.overrides
    if request.resume_options.retry != "none":
        progress.finished = []
    progress.write(request.folder)
    for number, step in enumerate(request.study.steps, 1):
        head = headline(request, number, step)
        if not request.is_due(step, progress.finished):
            if step.name in progress.finished:
                print(f"{head}  has ended before", flush=True)
            continue
        print(f"\n{head}\n  {command_of(request, step)}", flush=True)
        if missing := step.missing_inputs(request.values()):
            print(f"\n{missing_input_message(request, step, missing[0])}", flush=True)
            return 1
        folder = request.folder_of(step)
        try:
            code = run_step(step, request.values(), folder, request.flags, request.resume_options)
        except KeyboardInterrupt:
            print(f"\n{resume_hint(request, step)}", flush=True)
            raise
        if not has_ended(step, folder, code):
            print(f"\n{resume_hint(request, step)}", flush=True)
            return code or 1
        progress.finished = [*dict.fromkeys([*progress.finished, step.name])]
        progress.write(request.folder)
    return 0


def show(request: StudyRequest) -> int:
    """Print the steps with a forecast of each sweep, which needs no files of earlier steps.

    Return the exit code of a wrong command, else that of all points. Later steps are printed even
    if a sweep cannot run.
    """
    codes = [0]
    total = Total([], 0.0, 0.0)
    for number, step in enumerate(request.study.steps, 1):
        if not request.is_due(step, []):
            continue
        print(f"{headline(request, number, step)}\n  {command_of(request, step)}", flush=True)
        if step.module == BENCHKIT:
            words = step.arguments(request.values(), only_existing=True)
            with tempfile.TemporaryDirectory() as temporary:
                path = Path(temporary) / "forecast.json"
                code = run_module(BENCHKIT, [*request.flags, *words, f"{DRY_RUN}={path}"])
                codes.append(code)
                if path.exists():
                    total += files.read_json(path, Total)
        else:
            total += Total([], REPORT_S, 6 * REPORT_S)
    print(f"\nstudy {request.study.name}: {total}", flush=True)
    return max(codes) if max(codes) > 1 else exit_code(total.statuses)


def headline(request: StudyRequest, number: int, step: StudyStep) -> str:
    return f"study {request.study.name}, step {number} of {len(request.study.steps)}: {step.name}"


def command_of(request: StudyRequest, step: StudyStep) -> str:
    return f"python -m {step.module} {shlex.join(mask_words(step.arguments(request.values())))}"


def resume_hint(request: StudyRequest, step: StudyStep) -> str:
    return (
        f"study {request.study.name}: step {step.name} has not ended; what was measured is kept; "
        f"to go on: python -m benchkit study={request.study.name} --resume {request.folder}"
    )


def missing_input_message(request: StudyRequest, step: StudyStep, path: str) -> str:
    return (
        f"study {request.study.name}: step {step.name} needs "
        f"{Path(path).relative_to(request.folder)}, which no step before it has written (see their "
        f"lines above); what was measured is kept; to measure again what is missing: "
        f"python -m benchkit study={request.study.name} --resume {request.folder} --retry all"
    )
