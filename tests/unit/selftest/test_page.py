import math
from dataclasses import replace

import pytest
from benchkit.selftest import runs
from benchkit.selftest.floor import FILE_NAME, Fingerprint, read
from benchkit.selftest.runs import CoreNoise, Findings, Noise, SelftestFailed, SizeRuns, render

QUIET = Findings(
    Fingerprint(
        cpu="a processor", cores=2, kernel="6.1", torch="2.13", world_size=2, threads=1, backend="gloo", device="cpu"
    ),
    Noise([CoreNoise(0, 0.001, 0.002, 2e-4)], 1.0, {"steal_s": 0.0}),
    [
        SizeRuns("all_reduce 1KiB latency", [1e-4, 1.01e-4] * 6),
        SizeRuns("all_reduce 1KiB back_to_back", [1e-4, 1.01e-4] * 6),
    ],
)


WRONG = [
    {"noise": Noise([CoreNoise(0, 0.0, 0.0, 1e-4), CoreNoise(1, 0.5, 0.3, 1e-2)], 1.0)},
    {"noise": Noise([CoreNoise(core, 0.0, core / 1e4, 1e-4) for core in range(64)], 1.0)},
    {"runs": [SizeRuns("x", [1.0, 1.1] * 6, [0.3]), SizeRuns("y", [1.0, *[math.nan] * 11])]},
    {"runs": [SizeRuns("x latency", [1.0, 1.1] * 6), SizeRuns("x back_to_back", [3.0, 3.3] * 6)]},
]


def test_page_of_a_quiet_machine_and_what_differs_on_others(golden):
    quiet = render(QUIET)
    others = [
        [part for part in render(replace(QUIET, **changes)).split("\n\n") if part not in quiet] for changes in WRONG
    ]
    assert all(others)
    golden(quiet)
    golden("\n\n".join("\n".join(parts) for parts in others))


def test_page_and_floor_are_written_in_place_of_a_corrupt_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "measure_machine", lambda setting: QUIET)
    assert runs.main(["--dir", str(tmp_path / "new")]) == 0
    assert str(tmp_path / "new" / FILE_NAME) in capsys.readouterr().out
    (tmp_path / "new" / FILE_NAME).write_text("{")
    assert runs.main(["--dir", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().err.count("\n") == 1
    assert read(tmp_path / "new")


def test_size_of_few_runs_is_not_stored(tmp_path, monkeypatch):
    some = [*QUIET.runs, SizeRuns("all_reduce 1MiB latency", [1e-3, *[math.nan] * 11])]
    monkeypatch.setattr(runs, "measure_machine", lambda setting: replace(QUIET, runs=some))
    assert runs.main(["--dir", str(tmp_path)]) == 0
    [floor] = read(tmp_path)
    assert [size.what for size in floor.sizes] == [each.what for each in QUIET.runs]


@pytest.mark.parametrize(("lost", "code"), [(0.05, 0), (0.3, 1)])
def test_floor_of_a_busy_machine_is_not_stored(lost, code, tmp_path, monkeypatch, capsys):
    busy = replace(QUIET, noise=Noise([CoreNoise(0, 0.0, 0.0, 1e-4), CoreNoise(1, 0.5, lost, 1e-2)], 1.0))
    monkeypatch.setattr(runs, "measure_machine", lambda setting: busy)
    assert runs.main(["--dir", str(tmp_path)]) == code
    assert (tmp_path / FILE_NAME).exists() is (code == 0)
    assert capsys.readouterr().err.count("\n") == code
    assert runs.main(["--dir", str(tmp_path), "--even-if-busy"]) == 0
    assert read(tmp_path)


def test_selftest_that_cannot_be_made_is_one_line(tmp_path, monkeypatch, capsys, golden):
    def measured(setting):
        raise SelftestFailed("all_reduce: unavailable: no such backend")

    monkeypatch.setattr(runs, "measure_machine", measured)
    here = ["--dir", str(tmp_path)]
    lines = [[], ["--ranks", "0"], ["--seconds", "nan"], ["--dir", "/dev/null/below"]]
    assert [runs.main([*here, *line]) for line in lines] == [1, 2, 2, 2]
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert runs.main(here) == 2
    monkeypatch.setenv("RANK", "0")
    assert runs.main(here) == 2
    golden(capsys.readouterr().err)
    assert not list(tmp_path.iterdir())
