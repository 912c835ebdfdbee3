"""Records of two places, point by point: ratios, words, exit codes, and what differs around them."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from analysis.__main__ import main
from analysis.commands.comparison import INDICATIVE, fewest_runs
from analysis.records.environments import differences, environment_of, summary

from tests.support.records import as_record, having, make_record, make_rich_record, write_all, write_plan

SPREAD = (0.98, 1.0, 1.02, 0.99, 1.01, 0.985, 1.015, 1.005)
"""Of each run of a point: its time, as a multiple of the point's own."""


def place(folder, times, runs=8, change=lambda record: record, planned=False, **changes):
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
    return code, out, pd.read_csv(tmp_path / "a" / "analysis" / "compare.csv").set_index("data_size")


def test_point_has_verdict_and_interval(tmp_path, capsys):
    place(tmp_path / "a", {1.0: 1, 10.0: 10, 100.0: 100})
    place(tmp_path / "b", {1.0: 1.2, 10.0: 8, 100.0: 100.5})
    code, out, points = compared(tmp_path, capsys)
    assert points["verdict"].tolist() == ["SLOWER", "FASTER", "SAME"]
    assert points["ratio"].tolist() == pytest.approx([1.2, 0.8, 1.005])
    assert (points["ratio_low"] < points["ratio"]).all()
    assert (points["ratio"] < points["ratio_high"]).all()
    assert points["A_spread"].tolist() == pytest.approx([np.std(np.log(SPREAD), ddof=1)] * 3)
    assert (points["A_runs"] == 8).all()
    assert code == 1
    assert "1 SLOWER, 1 FASTER, 1 SAME" in out
    assert "8 / 8" in out
    assert "All points: suite allreduce, backend gloo" in out
    assert "were not measured in turns" in out
    assert f"Geometric mean over 3 points: {(1.2 * 0.8 * 1.005) ** (1 / 3):.3f} times [" in out
    assert "Also" not in out


def slow_at(share):
    """Changes a record of 1 MiB so that a share of its calls takes four times as long."""

    def change(made):
        for case in made["cases"] if made["config"]["data_size"] == 1.0 else []:
            slow = max(1, round(share * len(case["samples_s"][0])))
            case["samples_s"] = [[4 * each for each in rank[:slow]] + rank[slow:] for rank in case["samples_s"]]
        return made

    return change


@pytest.mark.parametrize(("share", "told"), [
    (0.02, "Also data_size=1 MiB: p99 "), (0.3, "Also data_size=1 MiB: slow_mode_share +30.0% [+30.0%, +30.0%]")
])  # fmt: skip
def test_change_of_tail_is_told(tmp_path, capsys, share, told):
    both = {1.0: 1, 10.0: 10}
    place(tmp_path / "a", both, samples=200, spread=0.05)
    place(tmp_path / "b", both, samples=200, spread=0.05, change=slow_at(share))
    code, out, points = compared(tmp_path, capsys)
    assert (code, points["verdict"].tolist()) == (0, ["SAME", "SAME"])
    assert told in out
    assert "Also data_size=10" not in out


def test_mean_needs_runs_with_all_points(tmp_path, capsys):
    for side in "ab":
        place(tmp_path / side / "one", {1.0: 1})
        place(tmp_path / side / "two", {10.0: 10})
    assert "Geometric mean over 2 points: no run has all of them" in compared(tmp_path, capsys)[1]


@pytest.mark.parametrize(("factor", "limit", "word", "code"), [
    (1.0, "5%", "SAME", 0), (1.1, "5%", "SLOWER", 1), (0.9, "5%", "FASTER", 0), (1.1, "0.2", "SAME", 0),
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
    assert code == 0
    assert points["verdict"].tolist() == [INDICATIVE]
    assert points["ratio"].tolist() == pytest.approx([3], rel=0.05)
    assert "ratio_low" not in points
    assert "1 unpaired, indicative: a side has a single run" in out
    assert "intervals by the rank sum" not in out


def test_repeated_points_are_judged(tmp_path, capsys):
    made = [make_record(10.0, 2, 1e-2)]
    write_all(tmp_path / "a" / "more", made)
    write_all(tmp_path / "b" / "more", made)
    place(tmp_path / "a" / "sweep", {1.0: 1})
    place(tmp_path / "b" / "sweep", {1.0: 1.5})
    code, _, points = compared(tmp_path, capsys)
    assert code == 1
    assert points["verdict"].to_dict() == {10.0: INDICATIVE, 1.0: "SLOWER"}


def test_seeds_do_not_tell_points_apart(tmp_path, capsys):
    for side, time in (("a", 1), ("b", 2)):
        for run in range(4):
            made = make_record(1.0, 2, 1e-3 * time * SPREAD[run])
            made["config"]["seed"] = 10 * run
            write_all(tmp_path / side / str(run), [made])
    code, _, points = compared(tmp_path, capsys)
    assert (code, points["A_runs"].tolist(), points["verdict"].tolist()) == (1, [4], ["SLOWER"])


def test_three_runs_have_no_interval(tmp_path, capsys):
    place(tmp_path / "a", {1.0: 1}, runs=3)
    place(tmp_path / "b", {1.0: 3}, runs=3)
    code, out, points = compared(tmp_path, capsys)
    assert (code, points["verdict"].tolist()) == (3, ["UNCLEAR"])
    assert "One may need 4 runs on each side." in out


def test_sweeps_of_one_place_are_runs(tmp_path, capsys):
    for side, time in (("a", 1), ("b", 2)):
        for day in range(4):
            write_all(tmp_path / side / f"day{day}", [make_record(1.0, 2, 1e-3 * time * SPREAD[day])])
    code, _, points = compared(tmp_path, capsys)
    assert (code, points["A_runs"].tolist(), points["verdict"].tolist()) == (1, [4], ["SLOWER"])


def test_the_statistic_is_the_one_asked_for(tmp_path, capsys):
    place(tmp_path / "a", {1.0: 1})
    place(tmp_path / "b", {1.0: 1}, spread=0.5)
    ratios = {name: compared(tmp_path, capsys, "--statistic", name)[2]["ratio"].tolist() for name in ("median", "p25")}
    assert ratios["median"] == pytest.approx([1])
    assert ratios["p25"] == pytest.approx([0.75 / 0.95], rel=0.01)


def words_of(tmp_path, capsys, *arguments):
    """The exit code and the words of a comparison, by size; what fails for a CI that reads JUnit is what is worse."""
    code, out, points = compared(tmp_path, capsys, *arguments)
    suite = ElementTree.parse(tmp_path / "a" / "analysis" / "compare_junit.xml").getroot()
    failures = [case.get("name") for case in suite if case.find("failure") is not None]
    worse = points["verdict"].isin(["FAILED", "SLOWER"])
    assert len(suite) == len(points) == int(suite.get("tests"))
    assert len(failures) == worse.sum() == int(suite.get("failures"))
    assert (code == 1) == worse.any()
    page = (tmp_path / "a" / "analysis" / "compare.md").read_text()
    for word in set(points["verdict"]):
        assert word in out
        assert word in page
    return code, points["verdict"].to_dict()


BOTH = {1.0: 1, 10.0: 10}
SECOND = (1, 3, 5, 7)
"""Folders of the runs of the second size."""


@pytest.fixture
def twice(tmp_path):
    """Two folders of one sweep of two sizes, each measured four times."""
    for side in "ab":
        place(tmp_path / side, BOTH, runs=4, planned=True)
    return tmp_path / "a", tmp_path / "b"


def end(folder, runs, status, **changes):
    """Lets runs of a sweep have ended otherwise."""
    for run in runs:
        path = folder / str(run) / "record.json"
        error = {"message": f"it went {status}"}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"status": status, "error": error} | changes))


@pytest.mark.parametrize("runs", [SECOND, SECOND[:1]])
@pytest.mark.parametrize(
    "status", ["crash", "timeout", "invalid", "oom", "error", "skipped", "unavailable", "running", "interrupted"]
)
def test_point_that_fails_in_b_is_worse(twice, tmp_path, capsys, status, runs):
    end(twice[1], runs, status, cases=[])
    assert words_of(tmp_path, capsys, "--fail-on", "20%") == (1, {1.0: "SAME", 10.0: "FAILED"})


def test_record_edited_to_crash_is_worse(twice, tmp_path, capsys):
    """Its cases are still there, and are ok."""
    end(twice[1], SECOND[:1], "crash")
    assert words_of(tmp_path, capsys, "--fail-on", "20%") == (1, {1.0: "SAME", 10.0: "FAILED"})


def remove(path: Path):
    shutil.rmtree(path)


def tear(path: Path):
    (path / "record.json").write_text("{half")


@pytest.mark.parametrize("lose", [remove, tear])
@pytest.mark.parametrize("runs", [SECOND, SECOND[:1]])
def test_planned_run_without_record_is_worse(twice, tmp_path, capsys, runs, lose):
    for run in runs:
        lose(twice[1] / str(run))
    assert main(["compare", *map(str, twice), "--fail-on", "20%"]) == 1
    points = pd.read_csv(twice[0] / "analysis" / "compare.csv").set_index("data_size")
    assert points["verdict"].to_dict() == {1.0: "SAME", 10.0: "FAILED"}
    assert points["B_runs"].to_dict() == {1.0: 4, 10.0: 4 - len(runs)}
    assert points["B_planned"].to_dict() == {1.0: 4, 10.0: 4}


def test_planned_point_that_nobody_measured_is_worse(twice, tmp_path, capsys):
    write_plan(twice[1], [f"size {size}" for _ in range(4) for size in BOTH] + ["size 100"] * 4)
    code, out, points = compared(tmp_path, capsys, "--fail-on", "20%")
    assert (code, points["verdict"].tolist()) == (1, ["SAME", "SAME", "FAILED"])
    assert "point=size 100" in out
    assert "All points: suite allreduce, backend gloo" in out


def test_manifest_that_is_none_is_passed_over(twice, capsys):
    (twice[1] / "sweep.json").write_text('{"points": [{"key": 1}]}')
    assert main(["compare", *map(str, twice), "--fail-on", "20%"]) == 0
    assert "sweep.json" in capsys.readouterr().err


@pytest.mark.parametrize(("planned", "code"), [(False, 1), (True, 0)])
def test_runs_planned_are_those_of_a_unless_b_says_so(tmp_path, capsys, planned, code):
    place(tmp_path / "a", {1.0: 1}, runs=8, planned=True)
    place(tmp_path / "b", {1.0: 1}, runs=6, planned=planned)
    assert words_of(tmp_path, capsys)[0] == code


def test_copies_are_not_missed(twice, tmp_path):
    shutil.copytree(twice[1], twice[1] / "copy")
    assert main(["compare", *map(str, twice), "--fail-on", "20%"]) == 0


@pytest.mark.parametrize(("before", "now", "code", "word"), [
    ("crash", None, 0, "FIXED"), ("skipped", None, 0, "FIXED"), ("crash", "crash", 0, "NOT COMPARED"),
    ("crash", "timeout", 0, "NOT COMPARED"), ("crash", "skipped", 0, "NOT COMPARED"),
    ("skipped", "skipped", 0, "NOT COMPARED"), ("skipped", "unavailable", 0, "NOT COMPARED"),
    ("skipped", "crash", 1, "FAILED"),
])  # fmt: skip
def test_failure_in_a_too(twice, tmp_path, capsys, before, now, code, word):
    for folder, status in zip(twice, (before, now), strict=True):
        if status:
            end(folder, SECOND, status, cases=[])
    assert words_of(tmp_path, capsys, "--fail-on", "20%") == (code, {1.0: "SAME", 10.0: word})


@pytest.mark.parametrize(("before", "now", "word"), [(1, 1, "SAME"), (2, 1, "SAME"), (1, 2, "FAILED")])
def test_larger_share_of_failures_is_worse(tmp_path, capsys, before, now, word):
    for side, count in (("a", before), ("b", now)):
        place(tmp_path / side, {1.0: 1}, planned=True)
        end(tmp_path / side, range(count), "timeout", cases=[])
    code, out, points = compared(tmp_path, capsys)
    assert (code, points["verdict"].tolist()) == (int(word == "FAILED"), [word])
    assert points["reason"].str.contains("timeout").all()
    assert out.count("timeout") > 1  # no verdict on the runs that are left without a word


def test_nothing_measured_is_too_little(twice, tmp_path, capsys):
    for folder in twice:
        end(folder, range(8), "crash", cases=[])
    assert words_of(tmp_path, capsys) == (3, {1.0: "NOT COMPARED", 10.0: "NOT COMPARED"})


@pytest.mark.parametrize("status", ["ok", "crash"])
def test_new_point_is_not_worse(tmp_path, capsys, status):
    place(tmp_path / "a", {1.0: 1})
    place(tmp_path / "b", {1.0: 1})
    write_all(tmp_path / "b" / "more", [make_record(10.0, 2, status=status)])
    assert words_of(tmp_path, capsys) == (0, {1.0: "SAME", 10.0: "NEW"})


def test_many_points_are_named_in_part(tmp_path, capsys):
    place(tmp_path / "a", {float(size): size for size in range(1, 10)}, runs=1)
    place(tmp_path / "b", {1.0: 1}, runs=1)
    _, out, _ = compared(tmp_path, capsys)
    [line] = [line for line in out.splitlines() if ": 8: data_size=2 MiB" in line]
    assert line.endswith("data_size=6 MiB (B: missing) and 3 more")


def test_no_common_point_is_worse(tmp_path, capsys):
    place(tmp_path / "a", {1.0: 1})
    place(tmp_path / "b", {2.0: 1})
    assert words_of(tmp_path, capsys) == (1, {1.0: "FAILED", 2.0: "NEW"})


def labelled(made, *cases):
    """The record with a case for each of some labels."""
    [case] = made["cases"]
    return made | {"cases": [case | {"labels": labels} | changes for labels, changes in cases]}


EVEN, ODD = ({"strategy": name} for name in ("even", "odd"))
SHORT, LONG = ({"timing": name} for name in ("latency", "back_to_back"))
NO_SAMPLES = {"samples_s": [], "start_offsets_s": None, "blocks": []}
SKIPPED = NO_SAMPLES | {"status": "skipped", "reason": "does not fit"}


@pytest.mark.parametrize(("before", "now", "words"), [
    ([(EVEN, {}), (ODD, {})], [(EVEN, {})], {"even": "SAME", "odd": "FAILED"}),
    ([(EVEN, {})], [(EVEN, {}), (ODD, {})], {"even": "SAME", "odd": "NEW"}),
    ([(EVEN, {}), (ODD, {})], [(EVEN, {}), (ODD, SKIPPED)], {"even": "SAME", "odd": "FAILED"}),
    ([(EVEN, {}), (ODD, {})], [({}, SKIPPED)], {"even": "FAILED", "odd": "FAILED"}),
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
    assert points["B_runs"].tolist() == [7, 7]


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


def test_what_differs_around_them_is_said_first(tmp_path, capsys):
    place(tmp_path / "a", {1.0: 1}, change=lambda made: having(made, torch="2.10", kernel="6.1"))
    place(tmp_path / "b", {1.0: 1}, change=lambda made: having(made, torch="2.13.0", kernel="6.1", host="there"))
    _, out, points = compared(tmp_path, capsys)
    assert points["verdict"].tolist() == ["SAME"]
    head = out[: out.index("All points")]
    told = [line.split() for line in head.splitlines()]
    assert ["torch", "2.10", "2.13.0"] in told
    assert ["host", "here", "there"] in told
    assert "kernel" not in head
    assert "torch" in (tmp_path / "a" / "analysis" / "compare.md").read_text()


def test_equal_environments_are_said_to_be_equal(tmp_path, capsys):
    place(tmp_path / "a", {1.0: 1})
    place(tmp_path / "b", {1.0: 1})
    assert "environments do not differ" in compared(tmp_path, capsys)[1]


def environment(**changes):
    return environment_of(as_record(having(make_rich_record(), **changes)))


@pytest.mark.parametrize(("changes", "expected"), [
    ({"torch": "2.14"}, [("torch", "2.13.0", "2.14")]),
    ({"torch": "2.10"}, [("torch", "2.13.0", "2.10")]),
    ({"git_diff_hash": None}, [("commit", "0123456789ab+ab", "0123456789ab")]),
    ({"kernel": None}, [("kernel", "6.1", "not known")]),
    ({"gpus": [{"name": "a GPU", "driver_version": "570"}]}, [("driver", "not known", "570")]),
    ({"gpus": [{"name": "a GPU", "persistence_mode": "Enabled"}]}, [("persistence mode", "not known", "Enabled")]),
    ({"driver": "570"}, [("driver", "not known", "570")]),
    ({"nccl": "2.27.5"}, [("nccl", "not known", "2.27.5")]),
    ({"hip": "7.0"}, [("hip", "not known", "7.0")]),
    ({"variables": {"NCCL_P2P_DISABLE": "1"}}, [("$NCCL_P2P_DISABLE", "none recorded", "1")]),
    ({"variables": {"CUDA_VISIBLE_DEVICES": ""}}, [("$CUDA_VISIBLE_DEVICES", "none recorded", '""')]),
    ({"load_average": [9.0, 9.0, 9.0]}, []),
])  # fmt: skip
def test_each_difference_is_named(changes, expected):
    assert list(differences([environment()], [environment(**changes)])) == expected


def test_variables_of_the_backend_differ():
    changed = make_rich_record()
    changed["config"]["backend"]["env"] = {"GLOO_SOCKET_IFNAME": "lo"}
    found = differences([environment()], [environment_of(as_record(changed))])
    assert list(found) == [("backend_env", "not known", "GLOO_SOCKET_IFNAME=lo")]


def test_what_ranks_tell_differs():
    changed = make_rich_record()
    changed["torch_settings"] = {"allow_tf32": True, "flight_recorder_entries": None}
    changed["rank_devices"] = [{"device": "cuda:0", "nccl": "2.29.7"}]
    found = differences([environment()], [environment_of(as_record(changed))])
    assert list(found) == [("nccl", "not known", "2.29.7"), ("torch allow_tf32", "not known", "True")]


def test_variables_of_several_agents_differ():
    changed = make_rich_record()
    [agent] = changed["agents"]
    changed["agents"] = [agent | {"variables": {"OMP_NUM_THREADS": "4"}}, agent]
    found = differences([environment()], [environment_of(as_record(changed))])
    assert list(found) == [("$OMP_NUM_THREADS", "none recorded", "4 / unset")]


@pytest.mark.parametrize(("mhz", "differs"), [([1900.0, 0.0], False), ([1200.0, 1300.0], True)])
def test_gpu_clocks_differ_where_their_medians_do(mhz, differs):
    sides = []
    for after in ([1980.0, 1980.0], mhz):
        made = make_rich_record()
        for case in made["cases"]:
            case["disturbance"] |= {"gpu_sm_mhz_after": after}
        sides.append([environment_of(as_record(made))])
    assert list(differences(*sides)) == ([("GPU clock [GHz]", "1.98", "1.25")] if differs else [])


@pytest.mark.parametrize(("ghz", "differs"), [(2.05, False), (3.0, True)])
def test_clocks_differ_where_their_medians_do(ghz, differs):
    sides = []
    for highest in (2.0, ghz):
        made = make_rich_record()
        for case in made["cases"]:
            case["disturbance"] |= {"lowest_ghz": [1.0, 1.0], "highest_ghz": [highest, 1.5]}
        sides.append([environment_of(as_record(made))])
    assert list(differences(*sides)) == ([("CPU clock [GHz]", "2", "3")] if differs else [])


@pytest.mark.parametrize(("arguments", "reason"), [
    (["compare", "nowhere", "a"], "nowhere: no such folder or file"),
    (["compare", "a", "empty"], "no readable record.json at or below empty"),
    (["compare", "a"], "the following arguments are required: DIR"),
    (["compare", "a", "a", "a"], "unrecognized arguments: a"),
    (["compare", "a", "a", "--fail-on", "5"], "5: allowed are shares > 0% and < 100%, e.g. 5%"),
    (["compare", "a", "a", "--fail-on", "x%"], "x%: allowed are shares > 0% and < 100%"),
    (["compare", "a", "a", "--fail-on", "nan"], "nan: allowed are shares"),
    (["compare", "a", "a", "--statistic", "best"], "invalid choice: 'best'"),
    (["compare", "a", "a", "--output-dir", "a/0/record.json/x"], "Not a directory"),
])  # fmt: skip
def test_wrong_arguments_are_refused_in_one_line(tmp_path, capsys, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    place(tmp_path / "a", {1.0: 1}, runs=1)
    (tmp_path / "empty").mkdir()
    try:
        code = main(arguments)
    except SystemExit as end:  # of argparse
        code = end.code
    err = capsys.readouterr().err
    assert code == 2
    assert reason in err.splitlines()[-1]
    assert "Traceback" not in err


def test_foreign_files_are_passed_over(tmp_path, capsys):
    for side in "ab":
        place(tmp_path / side, {1.0: 1}, runs=2)
    (tmp_path / "b" / "0" / "record.json").write_text("{half")
    odd = make_record(1.0)
    odd["config"]["dtype"] = "$odd$"
    (tmp_path / "b" / "1" / "record.json").write_text(json.dumps(odd))
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    out, err = capsys.readouterr()
    assert err.splitlines()[0].startswith("analysis compare: passed over ")
    assert "dtype=$odd$ (A: missing)" in out


def test_files_go_where_they_are_asked_for(tmp_path, capsys):
    for side in "ab":
        place(tmp_path / side, {1.0: 1})
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--output-dir", str(tmp_path / "out")]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"compare.csv", "compare.md", "compare_junit.xml"}
    assert not (tmp_path / "a" / "analysis").exists()
    assert f"wrote {tmp_path / 'out' / 'compare.md'}" in capsys.readouterr().out


@pytest.mark.parametrize(("points", "runs"), [(1, 4), (2, 5), (20, 6)])
def test_so_many_runs_have_an_interval(points, runs):
    """2 / (8 over 4) is 0.029, 2 / (10 over 5) 0.008, 2 / (12 over 6) 0.0022."""
    assert fewest_runs(points) == runs


@pytest.mark.parametrize("suite", ["auto_shard", "collective", "ring_attention", "tp_columnwise"])
def test_cases_match_by_labels(tmp_path, capsys, suite):
    write_all(tmp_path / "a", [make_rich_record(suite)])
    write_all(tmp_path / "b", [make_rich_record(suite, started_at="2026-01-02")])
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    points = pd.read_csv(tmp_path / "a" / "analysis" / "compare.csv")
    assert points["ratio"].tolist() == pytest.approx([1.0] * 4)
    assert "Unmatched" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, 0.5, 1.0], "0.5, 1"), ([2.1], "2.1"), ([1.0, 4.0, 2.0, 3.0, 3.0], "1 to 4, median 3"),
        (["2.13", "2.12", "2.13"], "2.13, 2.12"), ([], "none"),
    ],
)  # fmt: skip
def test_values_stand_side_by_side(values, text):
    assert summary(values, "none") == text
