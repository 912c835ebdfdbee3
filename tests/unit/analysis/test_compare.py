"""Records of two places, point by point: ratios, words, exit codes, and what differs around them."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from analysis.cli import main

from tests.support.records import having, make_record, make_rich_record, write_all, write_plan

INDICATIVE = "unpaired, indicative"
SPREAD = (0.98, 1.0, 1.02, 0.99, 1.01, 0.985, 1.015, 1.005)
"""Of each run of a point: its time, as a multiple of the point's own."""


def place(folder, times, runs=6, change=lambda record: record, planned=False, **changes):
    """Records of several sizes, each measured in as many repetitions of one sweep; `times` are in ms, by size."""
    made = [
        change(make_record(size, 2, 1e-3 * time * SPREAD[run], repetition=run, **changes))
        for run in range(runs)
        for size, time in times.items()
    ]
    write_all(folder, made)
    if planned:
        write_plan(folder, [f"size {size}" for _ in range(runs) for size in times])
    return str(folder)


def compared(tmp_path, capsys, *arguments):
    """The exit code, the text and the table of a comparison of A and B."""
    code = main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), *arguments])
    out, err = capsys.readouterr()
    assert not err, err
    return code, out, pd.read_csv(tmp_path / "a" / "report" / "compare.csv").set_index("data_size")


def test_point_has_verdict_and_interval(tmp_path, capsys, golden):
    place(tmp_path / "a", {1.0: 1, 10.0: 10, 100.0: 100})
    place(tmp_path / "b", {1.0: 1.2, 10.0: 8, 100.0: 100.5})
    code, out, points = compared(tmp_path, capsys)
    assert (code, points["verdict"].tolist()) == (1, ["SLOWER", "FASTER", "SAME"])
    assert points["ratio"].tolist() == pytest.approx([1.2, 0.8, 1.005])
    assert (points["ratio_low"] < points["ratio"]).all()
    assert (points["ratio"] < points["ratio_high"]).all()
    assert points["A_spread"].tolist() == pytest.approx([np.std(np.log(SPREAD[:6]), ddof=1)] * 3)
    assert (points["A_runs"] == 6).all()
    assert f"Geometric mean over 3 points: {(1.2 * 0.8 * 1.005) ** (1 / 3):.3f} times [" in out
    golden(out)


def slow_at(share):
    """Changes a record of 1 MiB so that a share of its calls takes four times as long."""

    def change(made):
        for case in made["cases"] if made["config"]["data_size"] == 1.0 else []:
            slow = max(1, round(share * len(case["samples_s"][0])))
            case["samples_s"] = [[4 * each for each in rank[:slow]] + rank[slow:] for rank in case["samples_s"]]
        return made

    return change


@pytest.mark.parametrize(("share", "told"), [(0.02, "p99 "), (0.3, "slow_mode_share +30.0% [+30.0%, +30.0%]")])
def test_change_of_tail_is_told(tmp_path, capsys, share, told):
    both = {1.0: 1, 10.0: 10}
    place(tmp_path / "a", both, samples=200, spread=0.05)
    place(tmp_path / "b", both, samples=200, spread=0.05, change=slow_at(share))
    code, out, points = compared(tmp_path, capsys)
    assert (code, points["verdict"].tolist()) == (0, ["SAME", "SAME"])
    assert f"Also data_size=1 MiB: {told}" in out
    assert "Also data_size=10" not in out


@pytest.mark.parametrize(("factor", "limit", "word", "code"), [
    (1.0, "5%", "SAME", 0), (0.9, "5%", "FASTER", 0), (1.1, "5%", "SLOWER", 1), (1.1, "0.2", "SAME", 0),
    (1.05, "5%", "UNCLEAR", 3),
])  # fmt: skip
def test_the_exit_code_is_that_of_the_words(tmp_path, capsys, factor, limit, word, code):
    place(tmp_path / "a", {1.0: 1})
    place(tmp_path / "b", {1.0: 0.9999 * factor})
    found, _, points = compared(tmp_path, capsys, "--fail-on", limit)
    assert (points["verdict"].tolist(), found) == ([word], code)


@pytest.mark.parametrize("runs", [(1, 1), (1, 8), (8, 1)])
def test_single_run_is_indicative(tmp_path, capsys, runs):
    place(tmp_path / "a", {1.0: 1}, runs[0], planned=True)
    place(tmp_path / "b", {1.0: 3}, runs[1], planned=True)
    code, out, points = compared(tmp_path, capsys)
    assert (code, points["verdict"].tolist()) == (0, [INDICATIVE])
    assert points["ratio"].tolist() == pytest.approx([3], rel=0.05)
    assert "ratio_low" not in points
    assert f"1 {INDICATIVE}: " in out


def test_runs_are_folders_and_repetitions(tmp_path, capsys):
    """Sweeps of one place are runs, whatever their seeds; a point measured once beside them is not judged."""
    for side, time in (("a", 1), ("b", 2)):
        for day in range(5):
            made = make_record(1.0, 2, 1e-3 * time * SPREAD[day])
            made["config"]["seed"] = 10 * day
            write_all(tmp_path / side / f"day{day}", [made])
        place(tmp_path / side / "sweep", {2.0: time}, runs=5)
        place(tmp_path / side / "short", {4.0: 1, 8.0: 3 * time}, runs=3)
        write_all(tmp_path / side / "more", [make_record(10.0, 2, 1e-2)])
    code, out, points = compared(tmp_path, capsys, "--fail-on", "20%")
    assert code == 1
    words = {1.0: "SLOWER", 2.0: "SLOWER", 4.0: "UNCLEAR", 8.0: "UNCLEAR", 10.0: INDICATIVE}
    assert points["verdict"].to_dict() == words
    assert points["A_runs"].to_dict() == {1.0: 5, 2.0: 5, 4.0: 3, 8.0: 3, 10.0: 1}
    [mean] = [line for line in out.splitlines() if line.startswith("Geometric mean over 5 points")]
    assert "times" not in mean  # no run has all points


def test_the_statistic_is_the_one_asked_for(tmp_path, capsys):
    place(tmp_path / "a", {1.0: 1})
    place(tmp_path / "b", {1.0: 1}, spread=0.5)
    ratios = {name: compared(tmp_path, capsys, "--statistic", name)[2]["ratio"].tolist() for name in ("median", "p25")}
    assert ratios["median"] == pytest.approx([1])
    assert ratios["p25"] == pytest.approx([0.75 / 0.95], rel=0.01)


def words_of(tmp_path, capsys, *arguments):
    """The exit code and the words of a comparison, by size; what fails for a CI that reads JUnit is what is worse."""
    code, out, points = compared(tmp_path, capsys, *arguments)
    suite = ElementTree.parse(tmp_path / "a" / "report" / "compare_junit.xml").getroot()
    failures = [case.get("name") for case in suite if case.find("failure") is not None]
    worse = points["verdict"].isin(["FAILED", "SLOWER"])
    assert len(suite) == len(points) == int(suite.get("tests"))
    assert len(failures) == worse.sum() == int(suite.get("failures"))
    assert (code == 1) == worse.any()
    page = (tmp_path / "a" / "report" / "compare.md").read_text()
    for word in set(points["verdict"]):
        assert word in out
        assert word in page
    return code, points["verdict"].to_dict()


def end(folder, runs, status, **changes):
    """Lets runs of a sweep have ended otherwise."""
    for run in runs:
        path = folder / str(run) / "record.json"
        error = {"message": f"it went {status}"}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": status, "error": error} | changes))


def sides_of(tmp_path, sizes, runs=4):
    """Two folders of one sweep of some sizes; the folders of the runs of the size at a position."""
    for side in "ab":
        place(tmp_path / side, dict.fromkeys(sizes, 1), runs=runs, planned=True)
    return tmp_path / "a", tmp_path / "b", lambda position: range(position, len(sizes) * runs, len(sizes))


BAD = ("crash", "timeout", "invalid", "oom", "error", "skipped", "unavailable", "running", "interrupted")


def test_point_that_fails_in_b_is_worse(tmp_path, capsys):
    """In one of its runs or in all; also where a record was edited to a crash, and its cases are still ok."""
    ends = [*((status, count, {"cases": []}) for status in BAD for count in (1, 4)), ("crash", 1, {})]
    sizes = [float(size) for size in range(1 + len(ends))]
    _, b, runs_at = sides_of(tmp_path, sizes)
    for position, (status, count, changes) in enumerate(ends, start=1):
        end(b, runs_at(position)[:count], status, **changes)
    assert words_of(tmp_path, capsys, "--fail-on", "20%") == (1, {size: "FAILED" if size else "SAME" for size in sizes})


def remove(path: Path):
    shutil.rmtree(path)


def tear(path: Path):
    (path / "record.json").write_text("{half")


@pytest.mark.parametrize("lose", [remove, tear])
def test_planned_run_without_record_is_worse(tmp_path, lose):
    a, b, runs_at = sides_of(tmp_path, [1.0, 2.0, 3.0])
    for run in (*runs_at(1)[:1], *runs_at(2)):
        lose(b / str(run))
    assert main(["compare", str(a), str(b), "--fail-on", "20%"]) == 1
    points = pd.read_csv(a / "report" / "compare.csv").set_index("data_size")
    assert points["verdict"].to_dict() == {1.0: "SAME", 2.0: "FAILED", 3.0: "FAILED"}
    assert points["B_runs"].to_dict() == {1.0: 4, 2.0: 3, 3.0: 0}
    assert (points["B_planned"] == 4).all()


def test_planned_point_that_nobody_measured_is_worse(tmp_path, capsys):
    _, b, _ = sides_of(tmp_path, [1.0, 2.0])
    write_plan(b, [f"size {size}" for _ in range(4) for size in (1.0, 2.0)] + ["size 100"] * 4)
    code, out, points = compared(tmp_path, capsys, "--fail-on", "20%")
    assert (code, points["verdict"].tolist()) == (1, ["SAME", "SAME", "FAILED"])
    assert "point=size 100" in out
    assert "All points: suite allreduce" in out  # the point that nobody measured has no settings


def test_manifest_that_is_none_is_passed_over_and_copies_are_not_missed(tmp_path, capsys):
    a, b, _ = sides_of(tmp_path, [1.0, 2.0])
    shutil.copytree(b, b / "copy")
    (b / "sweep.json").write_text('{"points": [{"key": 1}]}')
    assert main(["compare", str(a), str(b), "--fail-on", "20%"]) == 0
    assert "sweep.json" in capsys.readouterr().err


@pytest.mark.parametrize(("planned", "code"), [(False, 1), (True, 0)])
def test_runs_planned_are_those_of_a_unless_b_says_so(tmp_path, capsys, planned, code):
    place(tmp_path / "a", {1.0: 1}, runs=8, planned=True)
    place(tmp_path / "b", {1.0: 1}, runs=6, planned=planned)
    assert words_of(tmp_path, capsys)[0] == code


def test_failure_in_a_too(tmp_path, capsys):
    ends = [
        ("crash", None, "FIXED"), ("skipped", None, "FIXED"), ("crash", "crash", "NOT COMPARED"),
        ("crash", "timeout", "NOT COMPARED"), ("crash", "skipped", "NOT COMPARED"),
        ("skipped", "skipped", "NOT COMPARED"), ("skipped", "unavailable", "NOT COMPARED"),
        (None, None, "SAME"),
    ]  # fmt: skip
    words = {float(size): word for size, (*_, word) in enumerate(ends)}
    *sides, runs_at = sides_of(tmp_path, list(words))
    for size, (*both, _) in enumerate(ends):
        for folder, status in zip(sides, both, strict=True):
            if status:
                end(folder, runs_at(size), status, cases=[])
    assert words_of(tmp_path, capsys, "--fail-on", "20%") == (0, words)
    end(sides[1], runs_at(5), "crash", cases=[])  # was skipped before
    assert words_of(tmp_path, capsys, "--fail-on", "20%") == (1, words | {5.0: "FAILED"})
    for folder in sides:
        end(folder, range(32), "crash", cases=[])
    assert words_of(tmp_path, capsys) == (3, dict.fromkeys(words, "NOT COMPARED"))


def test_larger_share_of_failures_is_worse(tmp_path, capsys):
    *sides, runs_at = sides_of(tmp_path, [1.0, 2.0, 4.0], runs=8)
    for folder, counts in zip(sides, ((1, 2, 1), (1, 1, 2)), strict=True):
        for position, count in enumerate(counts):
            end(folder, runs_at(position)[:count], "timeout", cases=[])
    code, out, points = compared(tmp_path, capsys)
    assert (code, points["verdict"].to_dict()) == (1, {1.0: "SAME", 2.0: "SAME", 4.0: "FAILED"})
    assert points["reason"].str.contains("timeout").all()
    assert out.count("timeout") > 3  # no verdict on the runs that are left without a word


def test_points_of_one_place_are_missing_or_new(tmp_path, capsys, golden):
    place(tmp_path / "a", {float(size): 1 for size in range(1, 10)}, runs=1)
    place(tmp_path / "b", {1.0: 1}, runs=1)
    write_all(tmp_path / "b" / "more", [make_record(20.0), make_record(30.0, status="crash")])
    code, words = words_of(tmp_path, capsys)
    assert code == 1
    assert words == {1.0: INDICATIVE, 20.0: "NEW", 30.0: "NEW"} | {float(size): "FAILED" for size in range(2, 10)}
    golden(compared(tmp_path, capsys)[1].partition("verdict\n")[2].partition("\nwrote")[0])  # some are only counted
    shutil.rmtree(tmp_path / "b" / "0")
    shutil.rmtree(tmp_path / "b" / "more" / "1")
    code, words = words_of(tmp_path, capsys)
    assert (code, set(words.values())) == (1, {"FAILED", "NEW"})  # none in common


def test_new_point_is_not_worse(tmp_path, capsys):
    for side in "ab":
        place(tmp_path / side, {1.0: 1})
    write_all(tmp_path / "b" / "more", [make_record(10.0, 2), make_record(20.0, 2, status="crash")])
    assert words_of(tmp_path, capsys) == (0, {1.0: "SAME", 10.0: "NEW", 20.0: "NEW"})


def labelled(made, *cases):
    """The record with a case for each of some labels."""
    [case] = made["cases"]
    return made | {"cases": [case | {"labels": labels} | changes for labels, changes in cases]}


EVEN, ODD = ({"strategy": name} for name in ("even", "odd"))
SHORT, LONG = ({"timing": name} for name in ("latency", "back_to_back"))
SKIPPED = {"samples_s": [], "start_offsets_s": None, "blocks": [], "status": "skipped", "reason": "does not fit"}


@pytest.mark.parametrize(("before", "now", "words"), [
    ([(EVEN, {}), (ODD, {})], [(EVEN, {})], {"even": "SAME", "odd": "FAILED"}),
    ([(EVEN, {})], [(EVEN, {}), (ODD, {})], {"even": "SAME", "odd": "NEW"}),
    ([(EVEN, {}), (ODD, {})], [(EVEN, {}), (ODD, SKIPPED)], {"even": "SAME", "odd": "FAILED"}),
    ([(EVEN, SKIPPED), (ODD, {})], [({}, SKIPPED)], {"even": "NOT COMPARED", "odd": "FAILED"}),
    # A suite times the latency of short calls only, and the calls were not short.
    ([(SHORT, {}), (LONG, {})], [(LONG, {})], {"latency": "NOT COMPARED", "back_to_back": "SAME"}),
    ([(LONG, {})], [(SHORT, {}), (LONG, {})], {"latency": "NEW", "back_to_back": "SAME"}),
])  # fmt: skip
def test_each_case_is_missed(tmp_path, capsys, before, now, words):
    place(tmp_path / "a", {1.0: 1}, change=lambda made: labelled(made, *before))
    place(tmp_path / "b", {1.0: 1}, change=lambda made: labelled(made, *now))
    code, _, points = compared(tmp_path, capsys)
    label = "strategy" if "strategy" in points else "timing"
    assert points.set_index(label)["verdict"].to_dict() == words
    assert code == int("FAILED" in words.values())


def test_case_has_no_reason_of_another(tmp_path, capsys):
    place(tmp_path / "a", {1.0: 1}, change=lambda made: labelled(made, (EVEN, {}), (ODD, {})))
    place(tmp_path / "b", {1.0: 1}, change=lambda made: labelled(made, (EVEN, SKIPPED)))
    _, _, points = compared(tmp_path, capsys)
    assert points.set_index("strategy")["reason"].str.contains("does not fit").to_dict() == {"even": True, "odd": False}


@pytest.mark.parametrize(("crashes", "words"), [
    ([], ["SAME", "SAME"]), ([1], ["SAME", "FAILED"]), ([0], ["FAILED", "SAME"]),
])  # fmt: skip
def test_size_matches_whether_it_is_one_of_several(tmp_path, capsys, crashes, words):
    """A size is a label where a point has several, and else a setting."""

    def several(made):
        made["config"]["data_size"] = [1.0, 10.0]
        made["point_id"] = "of two sizes"
        return labelled(made, ({"data_size": 1.0} | LONG, {}), ({"data_size": 10.0} | LONG, {}))

    place(tmp_path / "a", {1.0: 1}, change=several)
    place(tmp_path / "b", {1.0: 1, 10.0: 1}, change=lambda made: labelled(made, (LONG, {})))
    end(tmp_path / "b", crashes, "crash", cases=[], point_id="of no other run")
    code, _, points = compared(tmp_path, capsys)
    assert (code, points.sort_index()["verdict"].tolist()) == (int("FAILED" in words), words)


def test_crash_is_of_all_cases(tmp_path, capsys):
    for side in "ab":
        place(tmp_path / side, {1.0: 1}, change=lambda made: labelled(made, (EVEN, {}), (ODD, {})))
    end(tmp_path / "b", [2], "crash", cases=[])
    code, _, points = compared(tmp_path, capsys)
    assert (code, points["verdict"].tolist()) == (1, ["FAILED", "FAILED"])
    assert points["B_runs"].tolist() == [5, 5]


def test_failed_list_is_not_of_another_list(tmp_path, capsys):
    """Lists of sizes are no settings: points are told apart by their identity."""
    for side in "ab":
        for run in range(8):
            made = [
                labelled(make_record(1.0, 2, 1e-3 * SPREAD[run], point_id=labels["strategy"]), (labels, {}))
                for labels in (EVEN, ODD)
            ]
            write_all(tmp_path / side / str(run), made)
    end(tmp_path / "b" / "3", [1], "timeout", cases=[])
    code, _, points = compared(tmp_path, capsys)
    assert (code, points.set_index("strategy")["verdict"].to_dict()) == (1, {"even": "SAME", "odd": "FAILED"})


def in_environment(highest_ghz, gpu_mhz, *agents, **changes):
    """A record of agents in environments of their own; `changes` are of the record."""
    made = having(make_rich_record(**changes), load_average=[9.0 * len(agents)] * 3)
    made["agents"] = [made["agents"][0] | agent for agent in agents]
    for case in made["cases"]:
        clocks = {"lowest_ghz": [1.0, 1.0], "highest_ghz": [highest_ghz, 1.5], "gpu_sm_mhz_after": gpu_mhz}
        case["disturbance"] |= clocks
    return made


def test_what_differs_around_them_is_said_first(tmp_path, capsys, golden):
    gpu = {"name": "a GPU", "driver_version": "570", "persistence_mode": "Enabled"}
    variables = {"NCCL_P2P_DISABLE": "1", "CUDA_VISIBLE_DEVICES": ""}
    changes = {"host": "there", "torch": "2.10", "git_diff_hash": None, "kernel": None, "hip": "7.0", "gpus": [gpu]}
    of_ranks = {
        "rank_devices": [{"device": "cuda:0", "nccl": "2.29.7"}],
        "torch_settings": {"allow_tf32": True, "flight_recorder_entries": None},
    }
    before = [
        in_environment(2.0, [1900.0 + 20 * run] * 2, {"kernel": f"6.{run % 2}"}, {}, repetition=run) for run in range(4)
    ]
    now = in_environment(3.0, [1200.0, 1300.0], changes | {"variables": variables}, changes, **of_ranks)
    now["config"]["backend"]["env"] = {"GLOO_SOCKET_IFNAME": "lo"}
    now["environment"] |= {name: changes[name] for name in ("host", "torch", "git_diff_hash", "kernel")}
    write_all(tmp_path / "a", before)
    write_all(tmp_path / "b", [now | {"repetition": run} for run in range(4)])
    _, out, points = compared(tmp_path, capsys)
    assert (points["ratio"] == 1).all()  # points match whatever their environments
    golden(out.partition("\n\n")[2].partition("\n\nAll points")[0])
    assert "| torch " in (tmp_path / "a" / "report" / "compare.md").read_text()


def test_small_differences_of_clocks_and_load_are_none(tmp_path, capsys, golden):
    write_all(tmp_path / "a", [in_environment(2.0, [1980.0, 1980.0], {}, {})])
    write_all(tmp_path / "b", [in_environment(2.05, [1900.0, 0.0], {}, {}, started_at="2026-01-02")])
    golden(compared(tmp_path, capsys)[1].partition("\n\n")[2].partition("\n\nAll points")[0])


def test_wrong_arguments_are_refused_in_one_line(tmp_path, capsys, monkeypatch, golden):
    monkeypatch.chdir(tmp_path)
    place(tmp_path / "a", {1.0: 1}, runs=1)
    (tmp_path / "empty").mkdir()
    told = []
    for arguments in (
        ["nowhere", "a"], ["a", "empty"], ["a", "a", "--fail-on", "5"], ["a", "a", "--fail-on", "x%"],
        ["a", "a", "--fail-on", "nan"], ["a", "a", "--output-dir", "a/0/record.json/x"],
    ):  # fmt: skip
        try:
            code = main(["compare", *arguments])
        except SystemExit as end:  # of argparse
            code = end.code
        assert code == 2
        err = capsys.readouterr().err
        assert "Traceback" not in err
        told.append(err.splitlines()[-1])
    golden("\n".join(told))


def test_foreign_files_are_passed_over(tmp_path, capsys):
    for side in "ab":
        place(tmp_path / side, {1.0: 1}, runs=2)
    (tmp_path / "b" / "0" / "record.json").write_text("{half")
    odd = make_record(1.0)
    odd["config"]["dtype"] = "$odd$"
    (tmp_path / "b" / "1" / "record.json").write_text(json.dumps(odd))
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    out, err = capsys.readouterr()
    assert "0/record.json" in err
    assert "dtype=$odd$ (A: missing)" in out


def test_files_go_where_they_are_asked_for(tmp_path):
    for side in "ab":
        place(tmp_path / side, {1.0: 1}, runs=1)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--output-dir", str(tmp_path / "out")]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"compare.csv", "compare.md", "compare_junit.xml"}
    assert not (tmp_path / "a" / "report").exists()
