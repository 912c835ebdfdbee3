"""Points that run several times within one sweep: their order, their folders, and going on with them."""

import contextlib
import json

from benchkit.record import files
from benchkit.sweep import agenda, manifest
from benchkit.sweep.manifest import Manifest
from benchkit.sweep.resume import Resume

from tests.support.records import make_record

KEYS = ["a", "b", "c", "d", "e"]


def runs_of(keys=KEYS, repeats=3, seed=0, folders=None):
    names = folders or [str(number) for number in range(len(keys))]
    points = manifest.entries(keys, names, [[key] for key in keys])
    counts = repeats if isinstance(repeats, list) else [repeats] * len(keys)
    return [entry for _, entry in manifest.order_runs(points, counts, seed)]


def test_repetitions_run_in_turn_in_an_order_that_the_seed_decides():
    runs = runs_of(repeats=4)
    assert [run.repetition for run in runs] == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5
    orders = [[run.key for run in runs[first : first + 5]] for first in (0, 5, 10, 15)]
    assert [sorted(order) for order in orders] == [KEYS] * 4
    assert len({tuple(order) for order in orders}) > 1
    assert runs_of(repeats=4) == runs
    assert runs_of(seed=1) != runs_of(seed=2)
    assert runs_of(repeats=1) == manifest.entries(KEYS, list("01234"), [[key] for key in KEYS])  # as typed


def test_each_run_has_own_folder():
    runs = runs_of(["a", "b", "a"], 3)
    manifest.require_folders_of_their_own(runs)
    assert sorted((run.folder for run in runs), key=int) == list("012345678")
    assert len({run.identity for run in runs}) == 9
    assert {run.folder for run in runs if run.repetition == 1} == {"3", "4", "5"}
    named = runs_of(["a"], 2, folders=["seed=0"])
    assert {(run.folder, run.repetition) for run in named} == {("seed=0", 0), ("seed=0_repetition_2", 1)}


def test_points_may_run_unequally_often():
    runs = runs_of(["a", "b", "b"], [1, 3, 2])
    assert sorted((run.repetition, run.key) for run in runs) == [
        (0, "a"), (0, "b"), (0, "b"), (1, "b"), (1, "b"), (2, "b"),
    ]  # fmt: skip
    assert len({run.identity for run in runs}) == len({run.folder for run in runs}) == 6


def finish(folder):
    folder.mkdir(parents=True)
    (folder / files.FILE_NAME).write_text(json.dumps(make_record()))


def open_runs(folder, runs, asked):
    """The runs that a command line has still to measure, and the folder of each."""
    with contextlib.ExitStack() as held:
        found = agenda.prepare_agenda(folder, Manifest([], {}, runs), [None] * len(runs), asked, held)
    return [(runs[index], found.folders[index]) for index in found.open_indexes]


def test_repeated_sweep_resumes(tmp_path):
    runs = runs_of()
    assert [run for run, _ in open_runs(tmp_path, runs, None)] == runs
    assert manifest.read(tmp_path).points == runs
    for run in runs[:7]:
        finish(tmp_path / run.folder)
    assert open_runs(tmp_path, runs_of(), Resume(tmp_path)) == [(run, run.folder) for run in runs[7:]]
