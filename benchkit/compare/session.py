"""A comparison from its command line to its exit code, on every agent of a start.

All agents make the same runs in the same order: agent 0 says which one is next, and alone reads,
writes and prints.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchkit.compare import arms, command, plan, runs
from benchkit.compare.plan import Plan, Turn, turns_of
from benchkit.compare.runs import RunCutOff, RunFailed
from benchkit.errors import ConfigError, HostBusy
from benchkit.point.agents import AgentGroup
from benchkit.point.claim import claimed
from benchkit.version import __version__
from launch import topology
from launch.agents.group import END_S, EXCHANGE_TIMEOUT_S, Agents
from launch.agents.join import join
from launch.agents.member import Lost
from launch.signals import to_stop_request

JOIN_S, HOST_WAIT_S = 60.0, 3600.0
"""Seconds for all agents to come together, and to wait for other runs on each host, where the
overrides have no join_timeout_s or host_wait_s; as in conf/config.yaml."""


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
    join_s = number_of("join_timeout_s", wanted.overrides if wanted else [], JOIN_S)
    agents = join(started, traits, folder.parent, join_s)
    with agents.stopping_together(), contextlib.ExitStack() as held:
        agreed, folder = agree(agents, wanted, folder, held)
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
    prefix = f"{key}="
    values = [text.removeprefix(prefix) for text in overrides if text.startswith(prefix)]
    with contextlib.suppress(ValueError):  # `check_arms` has refused what is no number
        return float(values[-1]) if values else default
    return default


def check_arms(wanted: Plan, check: Callable[[Sequence[str]], str]) -> None:
    """Raises ConfigError for a command line that is wrong, of arms that run this code."""
    for arm in wanted.arms:
        problem = check(arm.arguments(wanted.overrides)) if arm.is_here else ""
        if problem:
            raise ConfigError(f"{arm.text}: {problem}" if arm.overrides else problem)


def agree(
    agents: Agents, wanted: Plan | None, folder: Path, held: contextlib.ExitStack
) -> tuple[Plan, Path]:
    """Takes the folder on agent 0, whose plan all agents follow.

    Args:
        agents: of this start.
        wanted: the plan of a fresh comparison; None for one that goes on.
        folder: of the comparison.
        held: takes over the claim on the folder.

    Raises:
        ConfigError: on all agents, if agent 0 cannot use the folder, or make the arms.
    """
    own: dict[str, Any] = {"problem": ""}
    if agents.first:
        try:
            if wanted:
                plan.claim_new(folder)
            found = wanted or plan.read_plan(folder)
            held.enter_context(claimed(folder))
            for arm in found.arms:
                arms.check_out(arm)
            plan.write_plan(found, folder)
            own |= {"plan": found.to_json().decode(), "folder": str(folder)}
        except (ConfigError, OSError) as error:
            own["problem"] = str(error)
    told = agents.exchange(own, EXCHANGE_TIMEOUT_S)[0]
    if told["problem"]:
        raise ConfigError(told["problem"])
    agreed = plan.parse_plan(told["plan"].encode())
    require_arms(agents, agreed)
    return agreed, Path(told["folder"])


def require_arms(agents: Agents, agreed: Plan) -> None:
    """Raises ConfigError on all agents, if the host of one of them lacks what an arm needs."""
    needed = [(arm.text, path) for arm in agreed.arms for path in (arm.python, arm.folder) if path]
    missing = (f"{text}: {path} is not there" for text, path in needed if not Path(path).exists())
    problems = agents.exchange(next(missing, ""), EXCHANGE_TIMEOUT_S)
    for member, problem in zip(agents.members, problems, strict=True):
        if problem:
            raise ConfigError(f"{problem} on {member.host}; all hosts must see it")


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
        told, code = agents.exchange(own, EXCHANGE_TIMEOUT_S)[0]
        if told is None:
            return int(code)
        number, role = told
        [turn] = [one for one in turns_of(number, agreed.order[number - 1]) if one.role == role]
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
    if told := agents.exchange(problem, EXCHANGE_TIMEOUT_S)[0]:
        raise ConfigError(told)
    began_s = time.perf_counter()
    ends = agents.exchange([*runs.perform(plan, turn, folder, agents.first)], END_S)
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
