"""What an agent takes from agent 0 of a sweep: names and numbers below a folder of its own."""

from pathlib import Path

import pytest
from benchkit.sweep.agenda import Agenda
from benchkit.sweep.agreement import parent_of
from launch.agents.messages import SweepEnds

TOLD = {"names": ["then"], "folders": ["0", "1/x"], "open": [1]}
HERE, PARENT = Path("/mine/now"), Path("/mine")


def test_agent_follows_below_its_own_folder():
    agenda = Agenda.heard(TOLD, HERE, PARENT, 2)
    assert agenda == Agenda(Path("/mine/then"), ["0", "1/x"], [1], [], {})
    assert Agenda.heard(agenda.told(PARENT), HERE, PARENT, 2) == agenda


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
        Agenda.heard(TOLD | changes, HERE, PARENT, 2)


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
    assert parent_of(Path(folder), naming) == Path(parent)
