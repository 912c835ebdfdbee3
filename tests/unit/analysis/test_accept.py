"""`python -m analysis accept`: one verdict with names, from records of pairs and of ranks, and its exit code."""

import json
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml
from analysis.__main__ import main
from analysis.page.question import question_of
from analysis.records.harvest import harvest
from analysis.report import sentences
from analysis.suites.rank_speed.data_sheet import devices, promise
from analysis.table import combine

from tests.support.acceptance import HOSTS, pairs, speeds
from tests.support.records import make_record, write_all, write_plan

NAME = "rank 2 on n1 (GPU-2, PCI 0000:02:00.0)"


@pytest.fixture
def verdict(tmp_path, capsys):
    def judged(*records, options=()):
        write_all(tmp_path / "sweep", list(records))
        code = main(["accept", str(tmp_path / "sweep"), *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return judged


def test_alike_ranks_are_alike(verdict):
    code, out, _ = verdict(pairs(), speeds())
    assert code == 0
    assert out.startswith("ALL ALIKE: 8 ranks on 4 nodes, 3 measurements; nothing is 10 % slower than its peers.")
    assert "found nine times in ten from these ratios on: messages of 4 MiB 1." in out
    assert "One run only of pair_matrix and rank_speed" in out


@pytest.mark.parametrize(
    ("planned", "torn", "code"), [("ab", None, 0), ("abab", None, 1), ("ab", 1, 1)], ids=["whole", "cut off", "torn"]
)
def test_planned_run_without_record_is_not_alike(tmp_path, planned, torn, code):
    write_all(tmp_path / "sweep", [pairs(), speeds(), speeds(seed=3)][: 3 if torn else 2])
    write_plan(tmp_path / "sweep", [*planned, *("c" if torn else "")])
    if torn:
        (tmp_path / "sweep" / "2" / "record.json").write_text("{half")
    assert main(["accept", str(tmp_path / "sweep")]) == code


@pytest.mark.parametrize(
    ("slow", "named"),
    [
        (lambda i, j: 2.0 if 2 in (i, j) else 1.0, f"- {NAME}: times its peers' time: messages of 4 MiB 2.0"),
        (lambda i, j: 2.0 if i == 2 else 1.0, f"- {NAME}, in what it sends: times"),
        (lambda i, j: 2.0 if j == 2 else 1.0, f"- {NAME}, in what it receives: times"),
        (lambda i, j: 3.0 if (i, j) == (2, 6) else 1.0, f"- the link from {NAME} to rank 6 on n3 (GPU-6, PCI"),
        (lambda i, j: 3.0 if {i, j} == {2, 6} else 1.0, f"- the link between {NAME} and rank 6 on n3 (GPU-6, PCI"),
        (
            lambda i, j: 3.0 if (i // 2 == 1) != (j // 2 == 1) else 1.0,
            "- node n1 (ranks 2, 3), in what it exchanges with others, not what stays inside: times",
        ),
    ],
)
def test_fault_is_named_for_ticket(verdict, slow, named):
    code, out, _ = verdict(pairs(slow), speeds())
    assert code == 1
    assert out.startswith("OUT OF LINE: 1 finding; 8 ranks on 4 nodes")
    assert named in out


def test_slow_rank_is_one_finding_of_all_tables(verdict):
    code, out, _ = verdict(
        pairs(lambda i, j: 2.0 if 2 in (i, j) else 1.0), speeds(lambda rank: 1.25 if rank == 2 else 1.0)
    )
    assert code == 1
    assert "OUT OF LINE: 1 finding;" in out
    assert "messages of 4 MiB 2.0" in out
    assert "copy 1.2" in out


def test_second_run_must_agree(verdict):
    slow = pairs(lambda i, j: 2.0 if 2 in (i, j) else 1.0)
    later = {"repetition": 1, "started_at": "2026-01-01T01:00:00.000+00:00"}
    code, out, _ = verdict(slow, pairs(seed=5, **later), speeds())
    assert (code, out.split(":")[0]) == (0, "ALL ALIKE")
    assert f"In the first half, or run, beside the other one: {NAME}: times its peers' time: messages of 4 MiB" in out


def test_drift_is_told(verdict):
    later = {"repetition": 1, "started_at": "2026-01-01T01:00:00.000+00:00"}
    code, out, _ = verdict(pairs(), pairs(lambda i, j: 1.5, seed=5, **later), speeds())
    assert code == 0
    assert "Times of the second half, or run, beside the first: messages of 4 MiB +50 %" in out


def test_switch_is_named_where_it_is_known(verdict, tmp_path):
    path = tmp_path / "switches.yaml"
    hosts = [f"n{rank}" for rank in range(12)]
    path.write_text("".join(f"leaf{i}: [{', '.join(hosts[3 * i : 3 * i + 3])}]\n" for i in range(4)))

    def slow(i, j):
        return 2.0 if (i // 3 == 1) != (j // 3 == 1) else 1.0

    code, out, _ = verdict(pairs(slow, hosts, devices=False), options=["--switches", str(path)])
    assert code == 1
    assert "- switch leaf1 (ranks 3, 4, 5), in what it exchanges with others" in out


def test_data_sheet_is_beside_peers(verdict):
    code, out, _ = verdict(speeds(share=0.5))
    assert code == 1
    assert "copy: 8 of 8 ranks are below 70 % of the NVIDIA H200 Tensor Core GPU datasheet: rank" in out
    assert "and 3 more like it" in out


def test_two_ranks_have_no_peers(verdict):
    code, out, _ = verdict(speeds(hosts=["n0", "n1"], devices=False))
    assert (code, out.split(":")[0]) == (1, "NOT JUDGED")
    assert "without peers to compare with: copy" in out


def test_failed_point_fails_acceptance(verdict):
    bad = pairs()
    bad["cases"][0] |= {"status": "invalid", "reason": "from rank 1: element 3", "samples_s": []}
    code, out, _ = verdict(bad, speeds())
    assert code == 1
    assert "- FAILED: pair_matrix {'round': 0" in out
    assert "from rank 1: element 3" in out


def unavailable(record):
    reason = "a pair needs two ranks"
    cases = [record["cases"][0] | {"status": "unavailable", "reason": reason, "samples_s": []}]
    return record | {"status": "unavailable", "cases": cases, "error": {"message": reason}}


def test_single_rank_is_judged_by_data_sheet(verdict):
    one = ["n0"]
    alone = unavailable(speeds(hosts=one, point_id="pairs")) | {"suite": "pair_matrix"}
    code, out, _ = verdict(speeds(hosts=one), alone)
    assert (code, out.split(",")[0]) == (0, "AS ON THE DATA SHEET: 1 rank on 1 node")
    assert "FAILED" not in out


def test_amounts_are_tables_of_their_own(verdict):
    larger = speeds(seed=5, started_at="2026-01-01T01:00:00.000+00:00")
    larger["cases"][0] |= {"details": {"moved_bytes": 2 * 10**9}}
    larger["cases"][0]["samples_s"] = [[2 * each for each in row] for row in larger["cases"][0]["samples_s"]]
    code, out, _ = verdict(pairs(), speeds(), larger)
    assert code == 0
    assert "copy of 1e+09 B 1.1" in out
    assert "copy of 2e+09 B 1.1" in out
    assert "beside the first" not in out


def test_missing_backend_fails_acceptance(verdict):
    lacking = unavailable(pairs(point_id="lacking")) | {"cases": []}
    code, out, _ = verdict(speeds(), lacking)
    assert code == 1
    assert "- FAILED: pair_matrix: a pair needs two ranks" in out


def test_other_layouts_have_verdicts_of_their_own(verdict):
    _, out, _ = verdict(pairs(), pairs(hosts=["a", "b", "c", "d"], point_id="other"))
    assert out.count("INCOMPLETE") == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tolerance", "0"], "analysis accept: --tolerance 0: allowed is a share > 0"),
        (["--switches", "no.yaml"], "analysis accept: --switches no.yaml: allowed is YAML such as"),
    ],
)
def test_invalid_argument_is_one_line(verdict, options, said):
    code, out, err = verdict(pairs(), options=options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("leaf1: n0\nleaf2: n1", "allowed is YAML such as `leaf1: [node1, node2]` (Expected `array`, got `str`"),
        ("leaf1: {n0: {}}", "allowed is YAML such as `leaf1: [node1, node2]` (Expected `array`, got `object`"),
        ("leaf1: [n0", "allowed is YAML such as `leaf1: [node1, node2]` (while parsing"),
        ("", "allowed is YAML such as `leaf1: [node1, node2]` (Expected `object`, got `null`"),
        ("leaf1: [n0, n1]\nleaf2: [n1, n2, n3, n0]", "n0, n1: allowed is one switch per host"),
        ("leaf1: [n0, n1]\nleaf2: [n22]", "no switch for n2, n3; no record has n22"),
        ("leaf1: [n0, n1, n2]", "no switch for n3"),
    ],
)
def test_every_host_must_have_one_switch(verdict, tmp_path, content, said):
    path = tmp_path / "switches.yaml"
    path.write_text(content)
    code, out, err = verdict(pairs(), options=["--switches", str(path)])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"analysis accept: --switches {path}: {said}")


def test_switches_may_be_those_of_larger_cluster(verdict, tmp_path):
    path = tmp_path / "switches.yaml"
    path.write_text("1: [n0, n1]\n2: [n2, n3, n4]")
    code, out, err = verdict(pairs(), speeds(), options=["--switches", str(path)])
    assert (code, out.split(":")[0], err) == (0, "ALL ALIKE", "")


def test_nothing_to_judge_says_what_to_run(verdict):
    code, _, err = verdict(make_record())
    assert code == 1
    assert "run `python -m benchkit sweep=acceptance`" in err


def test_senseless_peaks_are_named(verdict):
    senseless = speeds()
    senseless["config"]["hardware"]["peak_tflop_per_s"] = {"H200": "fast"}
    code, out, _ = verdict(senseless)
    assert code == 1
    assert "peak_tflop_per_s: Expected `object`, got `str` - at `$[...]`" in out


@pytest.mark.parametrize(("message", "said"), [("rank 1 hangs", "rank 1 hangs"), ("", "timeout")])
def test_failures_are_told_where_nothing_was_measured(verdict, message, said):
    hung = {"status": "timeout", "cases": [], "error": {"message": message, "rank": 1}}
    code, out, err = verdict(pairs() | hung)
    assert (code, out) == (1, f"- FAILED: pair_matrix: {said}\n")
    assert "nothing to judge" in err
    assert "sweep=acceptance" not in err


@pytest.mark.parametrize(
    ("made", "change", "said"),
    [
        (
            pairs,
            {"details": {"sends_to": [1, 99, -1, -1, -1, -1, -1, -1]}},
            "`sends_to` has rank 99; allowed are ranks below 8",
        ),
        (pairs, {"details": {"sends_to": [1]}}, "`sends_to` has 1 entries; allowed is one per rank: 8"),
        (pairs, {"details": {"sends_to": ["a"] * 8}}, "Expected `int`, got `str` - at `$.sends_to[0]`"),
        (pairs, {"details": {"sends_to": "nobody"}}, "Expected `array`, got `str` - at `$.sends_to`"),
        (pairs, {"details": {}}, "Object missing required field `sends_to`"),
        (speeds, {"details": {"moved_bytes": "many"}}, "Expected `float`, got `str` - at `$.moved_bytes`"),
        (speeds, {"details": {"moved_bytes": 0}}, "Expected `float` > 0.0 - at `$.moved_bytes`"),
        (speeds, {"labels": {"test": 3}}, "Expected `str`, got `int` - at `$.test`"),
        (speeds, {"labels": {"x": 1}}, "Object missing required field `test`"),
    ],
)
def test_senseless_record_is_named_and_passed_over(verdict, made, change, said):
    senseless = made(point_id="senseless", started_at="2026-01-01T01:00:00.000+00:00")
    senseless["cases"][0] |= change
    code, out, _ = verdict(made(), senseless)
    assert code == 1
    assert out.startswith("INCOMPLETE: 8 ranks on 4 nodes, ")
    [line] = [line for line in out.splitlines() if line.startswith("- FAILED: ")]
    assert "record.json: case {" in line
    assert said in line


def test_data_sheets_are_parsed_once(verdict, monkeypatch):
    read = Mock(side_effect=yaml.safe_load)
    monkeypatch.setattr("analysis.suites.rank_speed.data_sheet.yaml.safe_load", read)
    devices.cache_clear()
    verdict(speeds())
    assert read.call_count == 1


def test_devices_have_rates_and_sources():
    for entry in devices().values():
        assert entry["memory"] > entry["host"] > 0
        assert len(entry["source"]) > 10
    peaks = {"H200": {"bfloat16": 989.4}}
    assert promise("matmul", "bfloat16", "NVIDIA H200", peaks).rate == 989.4e12
    assert promise("copy", "", "NVIDIA H200 NVL", {}).rate == 4.8e12
    assert promise("copy", "", "a processor", {}) is promise("disk_read", "", "NVIDIA H200", {}) is None
    assert json.dumps(sorted(devices()))


def test_peaks_of_products_have_sources():
    text = (Path(__file__).parents[3] / "conf/hardware/cuda.yaml").read_text()
    entries = text.partition("peak_tflop_per_s:\n")[2].splitlines()
    assert len(entries) >= 10
    assert all(re.search(r"\}  # NVIDIA .*(datasheet|whitepaper)", entry) for entry in entries)


@pytest.fixture
def changed(tmp_path, capsys):
    """What `compare` says of two acceptances, and its exit code."""

    def compared(before, now):
        for name, records in (("before", before), ("now", now)):
            write_all(tmp_path / name, list(records))
        code = main(["compare", str(tmp_path / "before"), str(tmp_path / "now")])
        return code, capsys.readouterr().out

    return compared


def slow_rank(i, j):
    return 1.5 if 2 in (i, j) else 1.0


def test_change_names_rank_that_became_slower(changed):
    code, out = changed([pairs(), speeds()], [pairs(slow_rank, seed=7), speeds(seed=8)])
    assert code == 1
    assert f"- {NAME}: slower, beside the change of its peers: messages of 4 MiB 1.5" in out
    assert out.count("slower, beside") == 1
    assert "faster, beside" not in out


def test_change_names_what_became_faster(changed):
    code, out = changed([pairs(slow_rank)], [pairs(seed=7)])
    assert code != 1
    assert f"- {NAME}: faster, beside the change of its peers: messages of 4 MiB 1." in out
    assert "slower, beside" not in out


def test_lasting_fault_is_no_change(changed):
    """The verdict of both acceptances names the rank; the comparison does not."""
    _, out = changed([pairs(slow_rank), speeds()], [pairs(slow_rank, seed=7), speeds(seed=8)])
    assert "- No rank, link or node changed by 5 % more than its peers did." in out


def test_change_of_all_is_told_apart(changed):
    _, out = changed([pairs()], [pairs(lambda i, j: 1.2, seed=7)])
    assert "- No rank, link or node changed by 5 % more than its peers did." in out
    assert "- Times over those before, median of all: messages of 4 MiB 1.20." in out


def test_senseless_record_is_not_compared(changed):
    senseless = speeds()
    senseless["cases"][0]["labels"] = {}
    code, out = changed([pairs(), senseless], [pairs(slow_rank, seed=7), speeds()])
    assert code == 1
    assert "messages of 4 MiB 1.5" in out
    assert "- Not measured alike both times, and not compared: copy." in out


def with_new_device(record, rank):
    record["rank_devices"][rank] |= {"uuid": "GPU-new"}
    return record


def test_exchanged_device_is_told_and_others_are_compared(changed):
    now = [with_new_device(each, 5) for each in (pairs(slow_rank, seed=7), speeds(seed=8))]
    code, out = changed([pairs(), speeds()], now)
    assert code == 1
    assert f"- {NAME}: slower, beside the change of its peers: messages of 4 MiB 1.5" in out
    assert "- rank 5 on n2 (GPU-new, PCI 0000:05:00.0): another device than before (GPU-5)." in out
    assert out.count("another device than before") == 1


def test_few_of_many_exchanged_devices_are_named(changed):
    now = pairs(hosts=[f"n{rank}" for rank in range(12)], seed=7)
    before = pairs(hosts=[f"n{rank}" for rank in range(12)])
    for rank in range(12):
        with_new_device(now, rank)
    _, out = changed([before], [now])
    assert out.count("another device than before") == 8
    assert "- 4 more ranks have other devices than before." in out


def of_rounds(record, rounds):
    kept = [each for each in record["cases"] if each["labels"].get("round") in rounds]
    return record | {"cases": kept}


def test_other_rounds_are_not_compared(changed):
    code, out = changed([of_rounds(pairs(), (0, 1, 2))], [of_rounds(pairs(seed=5), (3, 4, 5))])
    assert code == 3
    assert "- Nothing was measured both times." in out
    assert "- Not measured alike both times, and not compared: messages of 4 MiB." in out
    assert "No rank, link or node changed" not in out


def test_other_amounts_are_not_compared(changed):
    larger = speeds(lambda rank: 2.0, seed=5)
    larger["cases"][0]["details"] = {"moved_bytes": 2 * 10**9}
    _, out = changed([pairs(), speeds()], [pairs(seed=7), larger])
    assert "- Not measured alike both times, and not compared: copy." in out
    assert "- Times over those before, median of all: messages of 4 MiB 1.00." in out


def test_change_of_two_ranks_is_that_of_medians(changed):
    two = ["n0", "n1"]
    _, out = changed([pairs(hosts=two)], [pairs(lambda i, j: 3.0 if i == 1 else 1.0, hosts=two, seed=4)])
    assert "No rank, link or node changed" not in out
    assert "- Times over those before, median of all: messages of 4 MiB 1.7" in out
    assert "- Fewer than three of a kind, so without peers to compare with: messages of 4 MiB." in out


def test_acceptances_of_other_ranks_are_not_compared(changed):
    code, out = changed([pairs(hosts=HOSTS[:6])], [pairs()])
    assert code == 1  # what was measured of six ranks is missing
    assert "- The acceptances are of other ranks: nothing can be compared." in out


def test_report_begins_with_verdict(tmp_path):
    write_all(tmp_path / "sweep", [pairs(slow_rank), speeds()])
    table = combine(harvest([tmp_path / "sweep"]).rows)
    lines = sentences.describe(table).splitlines()
    assert lines[:2] == ["Verdict", "- OUT OF LINE: 1 finding; 8 ranks on 4 nodes, 3 measurements."]
    assert lines[2].startswith(f"- {NAME}: times its peers' time: messages of 4 MiB 1.5")
    assert not any("highest bus bandwidth" in line for line in lines)
    assert question_of(table) == "Is every rank, link and node as fast as its peers?"
    write_all(tmp_path / "more", [make_record()])
    other = combine(harvest([tmp_path / "sweep", tmp_path / "more"]).rows)
    assert question_of(other).startswith("How long do ")
    assert sentences.describe(other).splitlines()[0] == "Verdict"
