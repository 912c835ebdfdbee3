"""A comparison on an agent other than 0: its own command line and files say what it runs."""

import sys
from dataclasses import asdict, replace
from typing import Any

import pytest
from benchkit.compare import command, session
from benchkit.compare.session import PlanMessage
from benchkit.errors import ConfigError
from launch.agents.messages import SweepEnds, parse_message

WORDS = ["plain", "env:A=1", "+suite=allreduce"]


class Agents:
    """Stands in for the group: agent 0 has told `value`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def broadcast(self, value: Any, kind: type) -> Any:
        return parse_message(self.value, kind)

    def all_gather(self, value: Any, kind: type) -> Any:
        return parse_message([self.value, value], kind)


def follow(told: Any, folder, asked: Any = None):
    asked = asked or command.parse(WORDS)
    return session.follow(Agents(told), asked, folder, session.make_plan(asked, folder))


def told_by_agent_0(folder, words=WORDS, **changes: Any) -> dict[str, Any]:
    made = command.new_plan(command.parse([*words, "--seed", "7"]), folder)
    return asdict(PlanMessage("", made.id, made.seed, folder.name, made.digest())) | changes


def test_agents_make_the_same_plan(tmp_path):
    told = told_by_agent_0(tmp_path / "then")
    made, folder, problem = follow(told, tmp_path / "now")
    assert (made.id, made.seed, made.digest()) == (told["id"], 7, told["digest"])
    assert (folder, problem) == (tmp_path / "then", None)
    assert [arm.python for arm in made.arms] == [sys.executable] * 2


def test_other_plan_is_refused(tmp_path):
    told = told_by_agent_0(tmp_path / "then", ["plain", "env:A=2", "+suite=allreduce"])
    assert follow(told, tmp_path / "now")[2]


@pytest.mark.parametrize("arm", ["env:A_TOKEN=x", "set:backend.env.A_TOKEN=x"])
def test_resumed_plan_is_that_of_own_folder_before_agent_0_writes(tmp_path, arm):
    """Whose plan in the file may then lack secrets that were there."""
    asked, words = command.ResumedComparison(tmp_path, []), ["plain", arm, "+suite=allreduce"]
    made = command.new_plan(command.parse(words), tmp_path)
    in_full = replace(made, arms=[made.arms[0], replace(made.arms[1], text=arm)])
    (tmp_path / command.FILE_NAME).write_bytes(in_full.to_json())
    own = session.make_plan(asked, tmp_path)
    assert own == made
    told = asdict(PlanMessage("", made.id, made.seed, tmp_path.name, session.make_plan(asked, tmp_path).digest()))
    command.write_plan(made, tmp_path)
    assert session.follow(Agents(told), asked, tmp_path, own) == (made, tmp_path, None)
    assert session.follow(Agents(told | {"digest": "0"}), asked, tmp_path, own)[2]
    with pytest.raises(ConfigError, match=r"A_TOKEN=…"):
        session.make_plan(asked, tmp_path)
    assert session.make_plan(command.ResumedComparison(tmp_path, [arm]), tmp_path) == made


def test_problem_of_agent_0_ends_all(tmp_path):
    with pytest.raises(ConfigError):
        follow(asdict(PlanMessage("in use")), tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        *({"name": name} for name in ("../x", "/etc", "..", "", 1)), {"id": "../../x"}, {"id": 1}, {"id": "0" * 33},
        {"seed": "1"}, {"digest": None},
    ],
)  # fmt: skip
def test_what_is_no_name_or_number_ends_the_agent(tmp_path, changes):
    with pytest.raises(SweepEnds):
        follow(told_by_agent_0(tmp_path / "then", **changes), tmp_path / "now")


def test_agent_without_plan_ends_all(tmp_path):
    """What one agent lacks, all of them report."""
    group: Any = Agents("")

    class Member:
        host = "n1"

    group.members = [Member, Member]
    with pytest.raises(ConfigError):
        session.require_arms(group, None, "no plan")
