"""Run a comparison from its command line to its exit code, on every agent.

A run counts once its folder has RUN_FILE, which is written when all of its points have ended.

All agents make the same runs in the same order: agent 0 broadcasts which one is next. Only agent 0
writes and prints. Each agent makes the plan from its own command line and files; agent 0 broadcasts
only numbers and a digest of it.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated, Protocol

import msgspec
from msgspec import Meta

from benchkit import child
from benchkit.api.keys import RunConfig
from benchkit.api.registry import own_modules, suites_in
from benchkit.compare import arms, command
from benchkit.compare.arms import Arm
from benchkit.compare.command import (
    ArmRun,
    CompareRequest,
    ComparisonPlan,
    ResumedComparison,
    runs_of_round,
)
from benchkit.errors import ConfigError, HostBusy
from benchkit.point.agent_group import AgentGroup
from benchkit.point.point import COMPARISON_VARIABLE
from benchkit.point.point_folder import claim_folder
from benchkit.record import files
from benchkit.record.record import HARMLESS, Count, Seconds, Seed
from benchkit.statistics.design import auto_plan, fixed_plan
from benchkit.sweep import manifest
from benchkit.sweep.agenda import Name
from benchkit.sweep.check import check
from benchkit.sweep.resume import Resume, settled_status
from benchkit.version import __version__
from launch.agents.connect import connect_agents
from launch.agents.group import END_S, Agents
from launch.agents.host_lock import LOCK_VARIABLE
from launch.agents.messages import Lost, SweepEnds
from launch.launcher_env import allocation_remark, require_launcher
from launch.module_path import path_options
from launch.signals import to_stop_request

RUN_FILE = "run.json"


class Judgement(Protocol):
    """Judgement of a comparison after some of its rounds."""

    exit_code: int

    @property
    def is_answered(self) -> bool:
        """Whether further pairs are unnecessary."""

    def as_text(self) -> str: ...

    def write(self, folder: Path) -> None: ...


class Judge(Protocol):
    """Judges the runs of a comparison."""

    def read(self, number: int, role: int, folder: Path) -> None:
        """Read a run of a round, from 1; raise ConfigError without a sweep."""

    def judge(self, alpha: float) -> Judgement:
        """Judge all rounds whose runs were read, at the error rate of a look."""


@dataclass(frozen=True)
class CountedRun:
    arm: str
    num_points: Count
    seconds: Seconds


def read_end(folder: Path) -> CountedRun | None:
    try:
        return files.read_json(folder / RUN_FILE, CountedRun)
    except (OSError, ValueError):
        return None


ENDED = (0, 1)
"""Exit codes of a sweep that ran all points; 1 if some failed."""


class RunFailed(Exception): ...


class RunCutOff(RunFailed):
    """None of its points failed, but some did not begin or end, as on a full disk."""


def set_aside(folder: Path) -> None:
    """Rename the folder of a run that does not count.

    Raise ConfigError if it is in use, OSError if it is a link.
    """
    files.make_plain_folder(folder.parent)
    files.refuse_link(folder)
    if not folder.is_dir():
        return
    with claim_folder(folder):
        pass
    archive = files.make_plain_folder(folder.parent.parent / "unfinished")
    number = 1
    while (archive / f"{folder.name}_{number}").exists():
        number += 1
    for path in (folder, log_path(folder)):
        if path.exists():
            path.rename(archive / f"{folder.name}_{number}{path.suffix}")


def arguments_of(arm: Arm, common: Sequence[str], turn: ArmRun, folder: Path) -> list[str]:
    folder_override = next(
        text for text in Resume(folder).as_overrides() if text.startswith("hydra.sweep.")
    )
    return [*arm.arguments(common), f"seed={turn.seed}", folder_override]


def perform(plan: ComparisonPlan, turn: ArmRun, folder: Path, is_first: bool) -> tuple[int, str]:
    """Run one run of this agent to its end; return its exit code and its last line."""
    with log_of(folder, is_first) as log:
        return child.run_logged(log, program_of(plan, turn, folder))


def program_of(plan: ComparisonPlan, turn: ArmRun, folder: Path) -> child.ChildCommand:
    """Return the command of a run.

    Its points do not wait for the host's lock, which this process holds for the whole comparison.
    """
    arm = plan.arms[turn.arm]
    variables = {
        LOCK_VARIABLE: f"benchkit-compare-{plan.id}",
        COMPARISON_VARIABLE: msgspec.json.encode(turn.to_comparison_run(plan)).decode(),
    }
    python = [arm.python, *(path_options() if arm.is_here else ())]
    return child.ChildCommand(
        [*python, "-m", "benchkit", *arguments_of(arm, plan.overrides, turn, folder)],
        arm.folder or (plan.started_in if os.path.isdir(plan.started_in) else None),
        arm.variables() | variables,
    )


def log_of(folder: Path, is_first: bool) -> IO[bytes]:
    """Open the log of a run: a file in agent 0's folder, which other hosts may lack."""
    if not is_first:
        return tempfile.TemporaryFile()
    log_path(folder).unlink(missing_ok=True)
    return log_path(folder).open("xb+")  # which follows no link


def log_path(folder: Path) -> Path:
    return folder.with_suffix(".log")


def require_end(code: int, line: str, arm: Arm, folder: Path) -> None:
    """Raise ConfigError or RunFailed if a run did not run all of its points."""
    if code == 2:
        raise ConfigError(f"{arm.text}: {line.removeprefix('benchkit: ')}")
    if code not in ENDED:
        raise RunFailed(f"{arm.text}: exit code {code}: {line} ({log_path(folder)})")


def mark_counted(arm: Arm, folder: Path, seconds: float, line: str) -> CountedRun:
    """Write RUN_FILE, by which a run counts.

    Raises:
        ConfigError: no point was run, as without benchkit.
        RunFailed: some of its points have not ended.
        RunCutOff: as before, and none has failed.
    """
    try:
        points = manifest.read(folder).points
    except ConfigError:
        raise ConfigError(f"{arm.text}: no point was run: {line} ({log_path(folder)})") from None
    statuses = [settled_status(folder / point.folder) for point in points]
    if num_open := statuses.count(""):
        kind = RunCutOff if {*statuses} <= {"", *HARMLESS} else RunFailed
        raise kind(
            f"{arm.text}: {num_open} of {len(points)} points did not end ({log_path(folder)})"
        )
    counted = CountedRun(arm.text, len(points), seconds)
    files.write_atomically(folder / RUN_FILE, msgspec.json.encode(counted))
    return counted


DIFFERS = (
    "agent 0 compares something else: interpreter, working folder, commit, and the files of "
    "--resume and --floor must be the same"
)


def main(arguments: Sequence[str], judge_of: Callable[[ComparisonPlan], Judge]) -> int:
    """Run `python -m benchkit compare`; return its exit code (command.HELP).

    `judge_of` makes the judge of a comparison.
    """
    if {"--help", "-h"} & set(arguments):
        print(command.HELP)
        return 0
    context = require_launcher()
    if remark := allocation_remark():
        print(f"benchkit: {remark}", file=sys.stderr)
    request = command.parse(arguments)
    folder = (request.folder or command.new_folder()).absolute()
    is_new = isinstance(request, CompareRequest)
    plan = make_plan(request, folder)
    with working_directory_of(plan):
        config = config_of(plan)
    typed = " ".join(command.show_of(word)(word) for word in arguments)
    traits = {"benchkit": __version__, "the command line": typed}
    agents = connect_agents(
        context, traits, folder.parent, config.join_timeout_s, config.trust_network
    )
    with agents.stop_together(), contextlib.ExitStack() as exit_stack:
        own_plan: ComparisonPlan | None
        if agents.first:
            own_plan, problem = prepare(agents, plan, is_new, folder, exit_stack), None
        else:
            own_plan, folder, problem = follow(agents, request, folder, plan)
        agreed = require_arms(agents, own_plan, problem)
        try:
            exit_stack.enter_context(lock_hosts(agents, config.host_wait_s))
            code = run_all(agreed, folder, agents, judge_of)
        except KeyboardInterrupt as error:
            say(agents, f"{to_stop_request(error)}; {advice(folder)}")
            raise
        except (RunFailed, HostBusy, Lost) as error:
            say(agents, f"{error}; {advice(folder)}")
            return 2 if isinstance(error, RunCutOff | HostBusy) else 1
        if not agents.first:
            agents.wait_for_end()
    return code


@contextlib.contextmanager
def working_directory_of(plan: ComparisonPlan) -> Iterator[None]:
    """Change to the folder in which a plan was typed, while it exists: paths are relative to it."""
    before = os.getcwd()
    if os.path.isdir(plan.started_in):
        os.chdir(plan.started_in)
    try:
        yield
    finally:
        os.chdir(before)


OF_COMPARISON = ("join_timeout_s", "trust_network", "host_wait_s")
"""Keys that apply to the comparison itself, and not only to its runs."""


def config_of(plan: ComparisonPlan) -> RunConfig:
    """Compose and check the arms that run the code here; return the configuration of the first.

    The code of other arms may have other keys. If all arms are such, and the overrides do not
    compose here, only those of OF_COMPARISON are composed.
    """
    configs = [
        first_config(arm.arguments(plan.overrides), f"{arm.text}: " if arm.overrides else "")
        for arm in plan.arms
        if arm.is_here
    ]
    if configs:
        return configs[0]
    try:
        return first_config(plan.overrides)
    except ConfigError:
        known = [text for text in plan.overrides if arms.key_of(text) in OF_COMPARISON]
        return first_config([f"+suite={next(iter(suites_in(own_modules())))}", *known])


def first_config(overrides: Sequence[str], prefix: str = "") -> RunConfig:
    """Compose and return the first point; raise ConfigError, with a prefix, without one."""
    try:
        task = check(overrides)
    except ConfigError as error:
        raise ConfigError(f"{prefix}{error}") from None
    if not task.configs:
        raise ConfigError(f"{prefix}measures nothing; allowed are the overrides of a sweep")
    if not task.runs_here:
        raise ConfigError(f"{prefix}launcher: not with compare: {arms.OF_COMPARE['launcher']}")
    return task.configs[0]


@dataclass(frozen=True)
class PlanMessage:
    """Agent 0's message on the plan, or why there is none (`problem`).

    `name` is the folder's name in the parent that each agent knows; all plans must have `digest`.
    """

    problem: str | None = None
    id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{0,32}\Z")] = ""
    seed: Seed = 0
    name: Name = "compare"
    digest: str = ""


def make_plan(request: CompareRequest | ResumedComparison, folder: Path) -> ComparisonPlan:
    """Return the plan of a new comparison, or read that of a resumed one."""
    if isinstance(request, ResumedComparison):
        return command.read_plan(folder, request.secrets)
    return command.new_plan(request, folder)


def prepare(
    agents: Agents,
    plan: ComparisonPlan,
    is_new: bool,
    folder: Path,
    exit_stack: contextlib.ExitStack,
) -> ComparisonPlan:
    """Claim the folder on agent 0, and broadcast the plan's message.

    Raise ConfigError on all agents if agent 0 cannot use the folder, or make the arms.
    """
    try:
        if is_new:
            command.claim_new(folder)
        exit_stack.enter_context(claim_folder(folder))
        command.write_plan(plan, folder)
        with working_directory_of(plan):
            for arm in plan.arms:
                arms.make_folder(arm)
    except (ConfigError, OSError) as error:
        agents.broadcast(PlanMessage(str(error)), PlanMessage)
        raise ConfigError(str(error)) from None
    message = PlanMessage(None, plan.id, plan.seed, folder.name, plan.digest())
    agents.broadcast(message, PlanMessage)
    return plan


def follow(
    agents: Agents, request: CompareRequest | ResumedComparison, folder: Path, own: ComparisonPlan
) -> tuple[ComparisonPlan | None, Path, str | None]:
    """Make the plan on an agent other than 0, from its own command line and files.

    `own` is this agent's plan from before the rendezvous: agent 0 has written the file since.
    Return the plan, the folder, and why the plan differs from that of agent 0. Raise ConfigError if
    agent 0 has none.
    """
    message = agents.broadcast(None, PlanMessage)
    if message.problem:
        raise ConfigError(message.problem)
    folder = folder.with_name(message.name)
    plan = own
    if isinstance(request, CompareRequest):
        try:
            plan = command.new_plan(replace(request, seed=message.seed), folder, message.id)
        except ConfigError as error:
            return None, folder, str(error)
    same = plan.digest() == message.digest
    return plan, folder, None if same else f"{command.FILE_NAME}: {DIFFERS}"


def require_arms(
    agents: Agents, plan: ComparisonPlan | None, problem: str | None
) -> ComparisonPlan:
    """Return the plan; raise ConfigError on all agents if one has none, or lacks an arm."""
    planned_arms = plan.arms if plan else []
    needed = [(arm.text, path) for arm in planned_arms for path in (arm.python, arm.folder) if path]
    missing = (f"{text}: {path} is not there" for text, path in needed if not Path(path).exists())
    own_problem = problem or next(missing, None)
    problems = agents.all_gather(own_problem, list[str | None])
    for member, problem in zip(agents.members, problems, strict=True):
        if problem:
            raise ConfigError(f"{problem} on {member.host}; all hosts must see it")
    assert plan
    return plan


@contextlib.contextmanager
def lock_hosts(agents: Agents, wait_s: float) -> Iterator[None]:
    """Hold the lock of every host; the runs of the comparison take another one."""
    with AgentGroup(agents, {}).lock_hosts(wait_s) as warnings:
        for warning in warnings:
            say(agents, warning)
        yield


def run_all(
    agreed: ComparisonPlan,
    folder: Path,
    agents: Agents,
    judge_of: Callable[[ComparisonPlan], Judge],
) -> int:
    """Make all remaining runs, in step with the other agents; return the exit code."""
    progress = ComparisonProgress(agreed, folder, judge_of(agreed)) if agents.first else None
    while True:
        turn = progress.next_turn() if progress else None
        end = progress.end() if progress and turn is None else 0
        message = ((turn.number, turn.role) if turn else None, end)
        next_run, code = agents.broadcast(message, tuple[tuple[int, int] | None, int])
        if next_run is None:
            return code
        number, role = next_run
        rounds = agreed.order[number - 1 : number] if number > 0 else []
        turns = [
            candidate
            for this_round in rounds
            for candidate in runs_of_round(number, this_round)
            if candidate.role == role
        ]
        if not turns:
            raise SweepEnds(f"agent 0 tells a run that the plan lacks: {number}, {role}")
        turn = turns[0]
        seconds, line = run_together(agreed, turn, folder / "runs" / turn.name, agents)
        if progress:
            progress.add(turn, seconds, line)


def run_together(
    plan: ComparisonPlan, turn: ArmRun, folder: Path, agents: Agents
) -> tuple[float, str]:
    """Make one run on all agents; return its seconds and its last line.

    Raise ConfigError or RunFailed on all agents if it fails on one of them.
    """
    problem = None
    if agents.first:
        try:
            set_aside(folder)
        except (ConfigError, OSError) as error:
            problem = str(error)
    if problem := agents.all_gather(problem, list[str | None])[0]:
        raise ConfigError(problem)
    began_s = time.perf_counter()
    outcome = perform(plan, turn, folder, agents.first)
    outcomes = agents.all_gather(outcome, list[tuple[int, str]], END_S)
    seconds = time.perf_counter() - began_s
    for code, line in outcomes:
        require_end(code, line, plan.arms[turn.arm], folder)
    return seconds, outcomes[0][1]


def advice(folder: Path) -> str:
    return f"to go on: python -m benchkit compare --resume {folder}"


def say(agents: Agents, message: str) -> None:
    if agents.first:
        print(f"benchkit: {message}", file=sys.stderr)


class ComparisonProgress:
    """Goes through the order of runs, and judges them at looks.

    A round counts when all of its runs do. Therefore a resumed comparison takes the same looks, at
    the same pairs, as one that was not interrupted.
    """

    def __init__(self, plan: ComparisonPlan, folder: Path, judge: Judge) -> None:
        """Begin with the runs in the folder that count already."""
        self._plan = plan
        self._folder = folder
        pairs = plan.options.pairs
        self._looks = fixed_plan(pairs) if pairs else auto_plan(plan.options.max_pairs)
        self._judge = judge
        self._counted: set[tuple[int, int]] = set()
        self._num_points: dict[str, int] = {}
        self._num_rounds = 0
        self._num_pairs = 0
        self._is_answered = False
        self._judgement: Judgement | None = None

    def next_turn(self) -> ArmRun | None:
        """Return the next run; None at the end of the comparison."""
        while self._num_rounds < len(self._plan.order) and not self._is_answered:
            this_round = self._plan.order[self._num_rounds]
            for turn in runs_of_round(self._num_rounds + 1, this_round):
                if (turn.number, turn.role) not in self._counted and not self._read(turn):
                    return turn
            self._num_rounds += 1
            if not this_round.is_control:
                self._num_pairs += 1
                self._look()
        return None

    def add(self, turn: ArmRun, seconds: float, line: str) -> None:
        """Count a run that has ended; `line` is the last one that it printed."""
        arm = self._plan.arms[turn.arm]
        folder = self._folder / "runs" / turn.name
        mark_counted(arm, folder, seconds, line)
        limit = f"{'' if self._plan.options.pairs else 'up to '}{self._looks.looks[-1]}"
        pair = "A/A pair" if turn.is_control else f"pair {self._num_pairs + 1} of {limit}"
        print(f"[round {turn.number}, {pair}] {arm.text}  {seconds:.1f} s", flush=True)

    def end(self) -> int:
        """Write and print the result; return the exit code."""
        judgement = self._judgement or self._judge.judge(self._looks.alpha)
        problem = ""
        try:
            judgement.write(self._folder)
        except OSError as error:  # the verdict is valid without them
            problem = f"; not all are written: {error}"
        print(f"\n{judgement.as_text()}\n\nresults: {self._folder}{problem}", flush=True)
        return judgement.exit_code

    def _read(self, turn: ArmRun) -> bool:
        """Read a run that counts; return False for one that does not."""
        folder = self._folder / "runs" / turn.name
        counted = read_end(folder)
        if counted is None:
            return False
        self._num_points.setdefault(counted.arm, counted.num_points)
        if len(set(self._num_points.values())) > 1:
            numbers = ", ".join(f"{arm}: {count}" for arm, count in self._num_points.items())
            raise ConfigError(
                f"arms differ in their number of points, which are paired ({numbers})"
            )
        self._judge.read(turn.number, turn.role, folder)
        self._counted.add((turn.number, turn.role))
        return True

    def _look(self) -> None:
        """Judge if a look is due; end the comparison if it is answered."""
        self._judgement = None
        if self._num_pairs not in self._looks.looks:
            return
        self._judgement = self._judge.judge(self._looks.alpha)
        self._is_answered = not self._looks.goes_on(self._num_pairs, self._judgement.is_answered)
        if not self._is_answered:
            print(f"\n{self._judgement.as_text()}\n", flush=True)
