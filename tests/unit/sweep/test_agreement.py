"""What an agent takes from agent 0 of a sweep: names and numbers below a folder of its own."""

from pathlib import Path

import pytest
from benchkit.sweep.agenda import Agenda, AgendaMessage
from benchkit.sweep.agreement import shared_parent
from launch.agents.messages import SweepEnds, parse_message
from msgspec import to_builtins

TOLD = {"names": ["then"], "folders": ["0", "1/x"], "open": [1]}
HERE, PARENT = Path("/mine/now"), Path("/mine")


def taken(told: dict[str, object]) -> Agenda:
    return Agenda.from_message(parse_message(told, AgendaMessage), HERE, PARENT, 2)


def test_agent_follows_below_its_own_folder():
    agenda = taken(TOLD)
    assert agenda == Agenda(Path("/mine/then"), ["0", "1/x"], [1], [], {})
    assert taken(to_builtins(agenda.message(PARENT))) == agenda


@pytest.mark.parametrize(
    "changes",
    [
        *({"names": [name]} for name in ("..", "", "/etc", "a/b", "a\0", 1)),
        *({"folders": ["0", name]} for name in ("..", "/etc", "a/../../b", "./a", None)),
        {"names": []}, {"folders": ["0"]}, {"open": [2]}, {"open": [-1]}, {"open": ["0"]}, {"open": 0},
    ],
)  # fmt: skip
def test_agent_ends_where_agent_0_tells_something_else(changes):
    with pytest.raises(SweepEnds):
        taken(TOLD | changes)


@pytest.mark.parametrize(
    ("naming", "folder", "parent"),
    [
        ("outputs/${now:%Y}", "outputs/2026", "outputs"),
        ("outputs/${now:%Y/%m}", "outputs/2026/11", "outputs"),
        ("outputs/s", "outputs/s", "outputs/s"),
        ("${oc.env:SCRATCH}/b/${now:%Y}", "/scratch/u/b/2026", "/scratch/u/b"),
        ("${hydra:runtime.cwd}/${now:%Y}/x", "/w/2026/x", "/w"),
        ("${hydra.job.name}/a${random:}", "benchkit/a7", "benchkit"),
        ("${now:%Y}", "2026", "."),
    ],
)
def test_parent_is_what_every_agent_knows(naming, folder, parent):
    assert shared_parent(Path(folder), naming) == Path(parent)
