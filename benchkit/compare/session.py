"""A comparison from its command line to its exit code, on every agent of a start.

All agents make the same runs in the same order: agent 0 says which one is next, and alone writes
and prints. Each agent makes the plan from its own command line and files; agent 0 says only numbers
and a digest of it.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from benchkit.compare import arms, command, plan, runs
from benchkit.compare.command import Request
from benchkit.compare.plan import Plan, Turn, turns_of
from benchkit.compare.runs import RunCutOff, RunFailed
from benchkit.errors import ConfigError, HostBusy
from benchkit.point.agents import AgentGroup, heard
from benchkit.point.claim import claimed
from benchkit.sweep.agenda import Name
from benchkit.version import __version__
from launch import topology
from launch.agents.group import END_S, EXCHANGE_TIMEOUT_S, Agents
from launch.agents.join import join
from launch.agents.member import Lost, SweepEnds
from launch.signals import to_stop_request

JOIN_S, HOST_WAIT_S = 60.0, 3600.0
"""Seconds for all agents to come together, and to wait for other runs on each host, where the
overrides have no join_timeout_s or host_wait_s; as in conf/config.yaml."""

YES = ("true", "yes", "on", "1")
DIFFERS = (
    "agent 0 compares something else: interpreter, working folder, commit, and the files of "
    "--resume and --floor must be the same"
)


def main(arguments: Sequence[str], check: Callable[[Sequence[str]], str]) -> int:
    """Runs `python -m benchkit compare`.

    Args:
        arguments: after `compare`.
        check: says why a command line of benchkit would be refused; "" where it would run.

    Returns:
        The exit code of the comparison (command.HELP).

    Raises:
        ConfigError, JoinError, LaunchError: the comparison is refused.
    """
    if {"--help", "-h"} & set(arguments):
        print(command.HELP)
        return 0
    started = topology.require_launcher()
    if remark := topology.allocation_remark():
        print(f"benchkit: {remark}", file=sys.stderr)
    asked = command.parse(arguments)
    named = asked if isinstance(asked, Path) else asked.folder
    folder = (named or plan.new_folder()).absolute()
    wanted = None if isinstance(asked, Path) else plan.new_plan(asked, folder)
    if wanted:
        check_arms(wanted, check)
    traits = {"benchkit": __version__, "the command line": " ".join(arguments)}
    overrides = wanted.overrides if wanted else plan.read_plan(folder).overrides
    join_s = number_of("join_timeout_s", overrides, JOIN_S)
    trusts_network = last_of("trust_network", overrides).lower() in YES
    agents = join(started, traits, folder.parent, join_s, trusts_network)
    with agents.stopping_together(), contextlib.ExitStack() as held:
        made: Plan | None
        if agents.first:
            made, problem = prepare(agents, wanted, folder, held), ""
        else:
            made, folder, problem = follow(agents, asked, folder)
        agreed = with_arms(agents, made, problem)
        try:
            wait_s = number_of("host_wait_s", agreed.overrides, HOST_WAIT_S)
            held.enter_context(hosts_to_ourselves(agents, wait_s))
            code = run_all(agreed, folder, agents)
        except KeyboardInterrupt as error:
            say(agents, f"{to_stop_request(error)}; {advice(folder)}")
            raise
        except (RunFailed, HostBusy, Lost) as error:
            say(agents, f"{error}; {advice(folder)}")
            return 2 if isinstance(error, RunCutOff | HostBusy) else 1
        if not agents.first:
            agents.wait_for_end()
    return code


def number_of(key: str, overrides: Sequence[str], default: float) -> float:
    """Returns the number that overrides set a key to, the last one where there are several."""
    with contextlib.suppress(ValueError):  # not there; `check_arms` has refused what is no number
        return float(last_of(key, overrides))
    return default


def last_of(key: str, overrides: Sequence[str]) -> str:
    """Returns the text that overrides set a key to, the last one; "" where they do not."""
    values = [text.partition("=")[2] for text in overrides if arms.key_of(text) == key]
    return values[-1] if values else ""


def check_arms(wanted: Plan, check: Callable[[Sequence[str]], str]) -> None:
    """Raises ConfigError for a command line that is wrong, of arms that run this code."""
    for arm in wanted.arms:
        problem = check(arm.arguments(wanted.overrides)) if arm.is_here else ""
        if problem:
            raise ConfigError(f"{arm.text}: {problem}" if arm.overrides else problem)


@dataclass(frozen=True)
class Told:
    """What agent 0 tells of the plan.

    Attributes:
        problem: why there is none; "" where there is one.
        id: of the comparison.
        seed: of the plan.
        name: of the comparison's folder, in the parent that each agent knows by itself.
        digest: of the plan, which the other agents' plans must have.
    """

    problem: str = ""
    id: Annotated[str, Meta(pattern=r"\A[0-9a-f]{0,32}\Z")] = ""
    seed: int = 0
    name: Name = "compare"
    digest: str = ""


def prepare(agents: Agents, wanted: Plan | None, folder: Path, held: contextlib.ExitStack) -> Plan:
    """Takes the folder on agent 0, and tells the others of the plan.

    Args:
        agents: of this start.
        wanted: the plan of a fresh comparison; None for one that goes on.
        folder: of the comparison.
        held: takes over the claim on the folder.

    Raises:
        ConfigError: on all agents, if agent 0 cannot use the folder, or make the arms.
    """
    try:
        if wanted:
            plan.claim_new(folder)
        found = wanted or plan.read_plan(folder)
        held.enter_context(claimed(folder))
        for arm in found.arms:
            arms.check_out(arm)
        plan.write_plan(found, folder)
    except (ConfigError, OSError) as error:
        agents.exchange(asdict(Told(str(error))), EXCHANGE_TIMEOUT_S)
        raise ConfigError(str(error)) from None
    told = Told("", found.id, found.seed, folder.name, found.digest())
    agents.exchange(asdict(told), EXCHANGE_TIMEOUT_S)
    return found


def follow(agents: Agents, asked: Request | Path, folder: Path) -> tuple[Plan | None, Path, str]:
    """Makes the plan on an agent other than 0, from its own command line and files.

    Args:
        agents: of this start.
        asked: what was typed.
        folder: of the comparison as this agent would name it.

    Returns:
        The plan, the folder, and why the plan is not that of agent 0; "" where it is.

    Raises:
        ConfigError: agent 0 has no plan.
    """
    told = heard(agents.exchange(None, EXCHANGE_TIMEOUT_S)[0], Told)
    if told.problem:
        raise ConfigError(told.problem)
    folder = folder.with_name(told.name)
    try:
        if isinstance(asked, Path):
            found = plan.read_plan(folder)
        else:
            found = plan.new_plan(replace(asked, seed=told.seed), folder, told.id)
    except ConfigError as error:
        return None, folder, str(error)
    same = found.digest() == told.digest
    return found, folder, "" if same else f"{plan.FILE_NAME}: {DIFFERS}"


def with_arms(agents: Agents, made: Plan | None, problem: str) -> Plan:
    """Returns the plan where all agents can follow it.

    Raises:
        ConfigError: on all agents, if one has no plan, or its host lacks what an arm needs.
    """
    planned = made.arms if made else []
    needed = [(arm.text, path) for arm in planned for path in (arm.python, arm.folder) if path]
    missing = (f"{text}: {path} is not there" for text, path in needed if not Path(path).exists())
    own = problem or next(missing, "")
    problems = heard(agents.exchange(own, EXCHANGE_TIMEOUT_S), list[str])
    for member, problem in zip(agents.members, problems, strict=True):
        if problem:
            raise ConfigError(f"{problem} on {member.host}; all hosts must see it")
    assert made
    return made


@contextlib.contextmanager
def hosts_to_ourselves(agents: Agents, wait_s: float) -> Iterator[None]:
    """Holds the lock of every host; the runs of the comparison take another one.

    Args:
        agents: of this start.
        wait_s: longest wait for other runs on a host, in seconds.
    """
    with AgentGroup(agents, {}).hosts_to_ourselves(wait_s, {}) as warnings:
        for warning in warnings:
            say(agents, warning)
        yield


def run_all(agreed: Plan, folder: Path, agents: Agents) -> int:
    """Makes all runs that are left, in step with the other agents; returns the exit code."""
    from benchkit.compare.progress import Progress  # imports numpy

    progress = Progress(agreed, folder) if agents.first else None
    while True:
        turn = progress.next_turn() if progress else None
        end = progress.end() if progress and turn is None else 0
        own = [[turn.number, turn.role] if turn else None, end]
        first = agents.exchange(own, EXCHANGE_TIMEOUT_S)[0]
        told, code = heard(first, tuple[tuple[int, int] | None, int])
        if told is None:
            return code
        number, role = told
        rounds = agreed.order[number - 1 : number] if number > 0 else []
        turns = [one for played in rounds for one in turns_of(number, played) if one.role == role]
        if not turns:
            raise SweepEnds(f"agent 0 tells a run that the plan lacks: {number}, {role}")
        turn = turns[0]
        seconds, line = run_together(agreed, turn, folder / "runs" / turn.name, agents)
        if progress:
            progress.add(turn, seconds, line)


def run_together(plan: Plan, turn: Turn, folder: Path, agents: Agents) -> tuple[float, str]:
    """Makes one run on all agents; returns how many seconds it took, and its last line.

    Raises:
        ConfigError, RunFailed: on all agents, if the run does not end as runs do on one of them.
    """
    problem = ""
    if agents.first:
        try:
            runs.set_aside(folder)
        except (ConfigError, OSError) as error:
            problem = str(error)
    if told := heard(agents.exchange(problem, EXCHANGE_TIMEOUT_S)[0], str):
        raise ConfigError(told)
    began_s = time.perf_counter()
    own = [*runs.perform(plan, turn, folder, agents.first)]
    ends = heard(agents.exchange(own, END_S), list[tuple[int, str]])
    seconds = time.perf_counter() - began_s
    for code, line in ends:
        runs.require_end(code, line, plan.arms[turn.arm], folder)
    return seconds, ends[0][1]


def advice(folder: Path) -> str:
    return f"to go on: python -m benchkit compare --resume {folder}"


def say(agents: Agents, message: str) -> None:
    """Prints a message of agent 0 to standard error."""
    if agents.first:
        print(f"benchkit: {message}", file=sys.stderr)
