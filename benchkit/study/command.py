"""`python -m benchkit study=NAME` runs the steps of a study in order, and can be continued."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from benchkit.errors import ConfigError
from benchkit.point.claim import claimed
from benchkit.study.plan import BENCHKIT, Step
from benchkit.study.request import PREFIX, Request, parse
from benchkit.study.steps import (
    FILE_NAME,
    Progress,
    has_ended,
    run_module,
    run_step,
    statuses_of,
)
from benchkit.sweep.folder import remember_latest
from benchkit.sweep.resume import Parser

Check = Callable[[Sequence[str]], str]
"""Returns why a command line of overrides is wrong; "" where it is not."""


def is_study(arguments: Sequence[str]) -> bool:
    """Returns whether a command line asks for a study, by its name or by the folder of one."""
    if any(each.startswith(PREFIX) for each in arguments):
        return True
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--resume", type=Path)
    try:
        folder = parser.parse_known_args(list(arguments))[0].resume
    except ConfigError:
        return False
    return folder is not None and (folder / FILE_NAME).exists()


def main(
    arguments: Sequence[str],
    files: Sequence[Path],
    check: Check,
    exit_code: Callable[[list[str]], int],
) -> int:
    """Runs a study.

    Args:
        arguments: of the command line.
        files: of all studies.
        check: checks the command line of a sweep.
        exit_code: of the statuses of all points.

    Returns:
        The exit code: that of the step that keeps the next ones from running; else as for a sweep
        of all points.

    Raises:
        ConfigError: there is no such study or parameter, or a step's command is wrong.
        KeyboardInterrupt: after the step that ran has stored what it measured.
    """
    request = parse(arguments, files)
    refuse_wrong_steps(request, check)
    if request.dry_run:
        return show(request)
    request.folder.mkdir(parents=True, exist_ok=True)
    with claimed(request.folder):
        remember_latest(request.folder)
        if code := run(request):
            return code
    print(f"\nstudy {request.study.name} has ended: {request.folder}")
    steps = request.study.steps
    return exit_code(
        [each for step in steps for each in statuses_of(step, request.folder_of(step))]
    )


def refuse_wrong_steps(request: Request, check: Check) -> None:
    """Raises ConfigError for the first sweep whose command line is wrong."""
    for step in request.study.steps:
        words = step.arguments(request.values(), only_existing=True)
        if step.module == BENCHKIT and (problem := check([*request.flags, *words])):
            raise ConfigError(f"study={request.study.name}, step {step.name}: {problem}")


def run(request: Request) -> int:
    """Runs the steps that have not ended; returns the exit code that keeps others from running."""
    progress = request.progress or Progress(request.study.name, request.parameters)
    progress.config_dir = request.config_dir
    if request.asked.retry != "none":
        progress.finished = []
    progress.write(request.folder)
    for number, step in enumerate(request.study.steps, 1):
        head = headline(request, number, step)
        if step.name in progress.finished:
            print(f"{head}  has ended before", flush=True)
            continue
        print(f"\n{head}\n  {command_of(request, step)}", flush=True)
        if missing := step.missing(request.values()):
            print(f"\n{unwritten(request, step, missing[0])}", flush=True)
            return 1
        folder = request.folder_of(step)
        try:
            code = run_step(step, request.values(), folder, request.flags, request.asked)
        except KeyboardInterrupt:
            print(f"\n{left(request, step)}", flush=True)
            raise
        if not has_ended(step, folder, code):
            print(f"\n{left(request, step)}", flush=True)
            return code or 1
        progress.finished.append(step.name)
        progress.write(request.folder)
    return 0


def show(request: Request) -> int:
    """Prints the steps with a forecast of each sweep, which needs no files of earlier steps.

    Returns:
        The highest exit code of the forecasts: a sweep that could not run hides no later step.
    """
    codes = [0]
    for number, step in enumerate(request.study.steps, 1):
        print(f"{headline(request, number, step)}\n  {command_of(request, step)}", flush=True)
        if step.module == BENCHKIT:
            words = step.arguments(request.values(), only_existing=True)
            codes.append(run_module(BENCHKIT, [*request.flags, *words, "--dry-run"]))
    return max(codes)


def headline(request: Request, number: int, step: Step) -> str:
    """Names a step and its place among the others."""
    return f"study {request.study.name}, step {number} of {len(request.study.steps)}: {step.name}"


def command_of(request: Request, step: Step) -> str:
    """Returns the command of a step as one would type it."""
    return f"python -m {step.module} {shlex.join(step.arguments(request.values()))}"


def left(request: Request, step: Step) -> str:
    """Says how to go on after a step that has not ended."""
    return (
        f"study {request.study.name}: step {step.name} has not ended; what was measured is kept; "
        f"to go on: python -m benchkit study={request.study.name} --resume {request.folder}"
    )


def unwritten(request: Request, step: Step, path: str) -> str:
    """Says that earlier steps have not written a file of a step, and how to go on."""
    return (
        f"study {request.study.name}: step {step.name} needs "
        f"{Path(path).relative_to(request.folder)}, which no step before it has written (see their "
        f"lines above); what was measured is kept; to measure again what is missing: "
        f"python -m benchkit study={request.study.name} --resume {request.folder} --retry all"
    )
