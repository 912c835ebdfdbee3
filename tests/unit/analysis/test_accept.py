"""`python -m analysis accept`: one verdict with names, from records of pairs and of ranks, and its exit code."""

import re

import analysis
import pytest
from analysis.cli import main
from analysis.screen.screen import screen_of
from analysis.suites.rank_speed.speeds import devices, sheet_rate

from tests.support.acceptance import HOSTS, pairs, speeds
from tests.support.cli import ROOT
from tests.support.records import make_record, write_all, write_plan

LATER = {"repetition": 1, "started_at": "2026-01-01T01:00:00.000+00:00"}
TWO, TWELVE = ["n0", "n1"], [f"n{rank}" for rank in range(12)]


@pytest.fixture
def verdict(tmp_path, capsys):
    """What `accept` says of records, on standard output and error, and its exit code."""

    def judged(*records, options=()):
        write_all(tmp_path / "sweep", list(records))
        code = main(["accept", str(tmp_path / "sweep"), *options])
        return code, *capsys.readouterr()

    return judged


def slow_rank(i, j):
    return 1.5 if 2 in (i, j) else 1.0


def slow_where(slow):
    return pairs(lambda i, j: 3.0 if slow(i, j) else 1.0)


def without_noise(slow=1.0):
    """Times that are all alike, but for one rank."""
    return [pairs(lambda i, j: slow if 2 in (i, j) else 1.0, noise=0.0), speeds(noise=0.0)]


def invalid(record):
    record["cases"][0] |= {"status": "invalid", "reason": "from rank 1: element 3", "samples_s": []}
    return record


def unavailable(record, **changes):
    reason = "a pair needs two ranks"
    cases = [record["cases"][0] | {"status": "unavailable", "reason": reason, "samples_s": []}]
    return record | {"status": "unavailable", "cases": cases, "error": {"message": reason}} | changes


def of_amount(record, factor):
    """The copy of more bytes, in as much more time."""
    record["cases"][0] |= {"details": {"moved_bytes": factor * 10**9}}
    record["cases"][0]["samples_s"] = [[factor * each for each in row] for row in record["cases"][0]["samples_s"]]
    return record


VERDICTS = {
    "alike": (lambda: [pairs(), speeds()], 0, "ALL ALIKE"),
    "alike without noise": (without_noise, 0, "ALL ALIKE"),
    "rank without noise": (lambda: without_noise(1.5), 1, "OUT OF LINE"),
    "rank": (lambda: [slow_where(lambda i, j: 2 in (i, j)), speeds()], 1, "OUT OF LINE"),
    "rank sends": (lambda: [slow_where(lambda i, j: i == 2), speeds()], 1, "OUT OF LINE"),
    "rank receives": (lambda: [slow_where(lambda i, j: j == 2), speeds()], 1, "OUT OF LINE"),
    "link in one direction": (lambda: [slow_where(lambda i, j: (i, j) == (2, 6)), speeds()], 1, "OUT OF LINE"),
    "link": (lambda: [slow_where(lambda i, j: {i, j} == {2, 6}), speeds()], 1, "OUT OF LINE"),
    "link both ways at once": (
        lambda: [pairs(at_once=lambda i, j: 3.0 if {i, j} == {2, 6} else 1.0), speeds()], 1, "OUT OF LINE",
    ),
    "node": (lambda: [slow_where(lambda i, j: (i // 2 == 1) != (j // 2 == 1)), speeds()], 1, "OUT OF LINE"),
    "one finding of all tables": (
        lambda: [pairs(slow_rank), speeds(lambda rank: 1.25 if rank == 2 else 1.0)], 1, "OUT OF LINE",
    ),
    "second run disagrees": (lambda: [pairs(slow_rank), pairs(seed=5, **LATER), speeds()], 0, "ALL ALIKE"),
    "all slower later": (lambda: [pairs(), pairs(lambda i, j: 1.5, seed=5, **LATER), speeds()], 0, "ALL ALIKE"),
    "below data sheet": (lambda: [speeds(share=0.5)], 1, "OUT OF LINE"),
    "two ranks": (lambda: [speeds(hosts=TWO, devices=False)], 1, "NOT JUDGED"),
    "one rank": (
        lambda: [speeds(hosts=["n0"]), unavailable(speeds(hosts=["n0"], point_id="pairs"), suite="pair_matrix")],
        0, "AS ON THE DATA SHEET",
    ),
    "invalid case": (lambda: [invalid(pairs()), speeds()], 1, "ALL ALIKE"),
    "missing backend": (lambda: [speeds(), unavailable(pairs(point_id="lacking"), cases=[])], 1, "INCOMPLETE"),
    "two amounts": (lambda: [pairs(), speeds(), of_amount(speeds(seed=5, **LATER), 2)], 0, "ALL ALIKE"),
    "two layouts": (lambda: [pairs(), pairs(hosts=list("abcd"), point_id="other")], 1, "INCOMPLETE"),
}  # fmt: skip


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict_names_what_is_slow(verdict, golden, name):
    records, code, word = VERDICTS[name]
    found, out, err = verdict(*records())
    assert (found, out.split(":")[0].split(",")[0], err) == (code, word, "")
    assert word != "OUT OF LINE" or "1 finding;" in out
    golden(out)


@pytest.mark.parametrize(
    ("planned", "torn", "code"), [("ab", None, 0), ("abab", None, 1), ("ab", 1, 1)], ids=["whole", "cut off", "torn"]
)
def test_planned_run_without_record_is_not_alike(tmp_path, planned, torn, code):
    write_all(tmp_path / "sweep", [pairs(), speeds(), speeds(seed=3)][: 3 if torn else 2])
    write_plan(tmp_path / "sweep", [*planned, *("c" if torn else "")])
    if torn:
        (tmp_path / "sweep" / "2" / "record.json").write_text("{half")
    assert main(["accept", str(tmp_path / "sweep")]) == code


def test_switch_is_named_where_it_is_known(verdict, tmp_path):
    path = tmp_path / "switches.yaml"
    path.write_text("".join(f"leaf{i}: [{', '.join(TWELVE[3 * i : 3 * i + 3])}]\n" for i in range(4)))

    def slow(i, j):
        return 2.0 if (i // 3 == 1) != (j // 3 == 1) else 1.0

    code, out, _ = verdict(pairs(slow, TWELVE, devices=False), options=["--switches", str(path)])
    assert code == 1
    assert "- switch leaf1 (ranks 3, 4, 5)" in out


def test_switches_may_be_those_of_larger_cluster(verdict, tmp_path):
    path = tmp_path / "switches.yaml"
    path.write_text("1: [n0, n1]\n2: [n2, n3, n4]")
    code, out, err = verdict(pairs(), speeds(), options=["--switches", str(path)])
    assert (code, out.split(":")[0], err) == (0, "ALL ALIKE", "")


def test_each_host_has_one_switch(tmp_path, capsys, golden):
    place = write_all(tmp_path / "sweep", [pairs()])
    path, told = tmp_path / "switches.yaml", []
    for options in (["--tolerance", "0"], ["--switches", "no.yaml"]):
        assert main(["accept", str(place), *options]) == 2
        told.append(capsys.readouterr().err)
    for content in (
        "leaf1: n0\nleaf2: n1", "leaf1: {n0: {}}", "leaf1: [n0", "", "leaf1: [n0, n1]\nleaf2: [n1, n2, n3, n0]",
        "leaf1: [n0, n1]\nleaf2: [n22]", "leaf1: [n0, n1, n2]",
    ):  # fmt: skip
        path.write_text(content)
        assert main(["accept", str(place), "--switches", str(path)]) == 2, content
        told.append(capsys.readouterr().err)
    assert all(line.count("\n") == 1 for line in told)
    golden("".join(told), {r"(node2\]` )\(.*\)": r"\1(YAML OR MSGSPEC)"})


def test_nothing_to_judge_says_what_to_run(verdict, golden):
    code, out, err = verdict(make_record())
    assert (code, out) == (1, "")
    golden(err)


@pytest.mark.parametrize(("message", "said"), [("rank 1 hangs", "rank 1 hangs"), ("", "timeout")])
def test_failures_are_told_where_nothing_was_measured(verdict, message, said):
    hung = {"status": "timeout", "cases": [], "error": {"message": message, "rank": 1}}
    code, out, err = verdict(pairs() | hung)
    assert (code, out) == (1, f"- FAILED: pair_matrix: {said}\n")
    assert err
    assert "sweep=acceptance" not in err


def test_senseless_peaks_are_named(verdict):
    senseless = speeds()
    senseless["config"]["hardware"]["peak_tflop_per_s"] = {"H200": "fast"}
    code, out, _ = verdict(senseless)
    assert code == 1
    assert "peak_tflop_per_s: " in out


@pytest.mark.parametrize(
    ("made", "change", "key"),
    [
        (pairs, {"details": {"sends_to": [1, 99, -1, -1, -1, -1, -1, -1]}}, "`sends_to` has rank 99"),
        (pairs, {"details": {"sends_to": [1]}}, "`sends_to` has 1 entries"),
        (pairs, {"details": {"sends_to": ["a"] * 8}}, "$.sends_to[0]"),
        (pairs, {"details": {}}, "`sends_to`"),
        (speeds, {"details": {"moved_bytes": 0}}, "$.moved_bytes"),
        (speeds, {"labels": {"test": 3}}, "$.test"),
    ],
)
def test_senseless_record_is_named_and_passed_over(verdict, made, change, key):
    senseless = made(point_id="senseless", started_at=LATER["started_at"])
    senseless["cases"][0] |= change
    code, out, _ = verdict(made(), senseless)
    assert (code, out.split(":")[0]) == (1, "INCOMPLETE")
    [line] = [line for line in out.splitlines() if line.startswith("- FAILED: ")]
    assert "record.json: case {" in line
    assert key in line


def test_devices_have_rates_and_sources():
    for entry in devices().values():
        assert entry.memory > entry.host > 0
        assert len(entry.source) > 10
    peaks = {"H200": {"bfloat16": 989.4}}
    assert sheet_rate("matmul", "bfloat16", "NVIDIA H200", peaks).rate == 989.4e12
    assert sheet_rate("copy", "", "NVIDIA H200 NVL", {}).rate == 4.8e12
    assert sheet_rate("copy", "", "a processor", {}) is sheet_rate("disk_read", "", "NVIDIA H200", {}) is None
    text = (ROOT / "conf/hardware/cuda.yaml").read_text()
    entries = text.partition("peak_tflop_per_s:\n")[2].splitlines()
    assert len(entries) >= 10
    assert all(re.search(r"\}  # NVIDIA .*(datasheet|whitepaper)", entry) for entry in entries)


def with_new_devices(record, *ranks):
    for rank in ranks:
        record["rank_devices"][rank] |= {"uuid": "GPU-new"}
    return record


def without_labels(record):
    record["cases"][0]["labels"] = {}
    return record


def of_rounds(record, *rounds):
    return record | {"cases": [each for each in record["cases"] if each["labels"].get("round") in rounds]}


CHANGES = {
    "slower rank": (lambda: ([pairs(), speeds()], [pairs(slow_rank, seed=7), speeds(seed=8)]), 1),
    "faster rank": (lambda: ([pairs(slow_rank)], [pairs(seed=7)]), 0),
    "lasting fault": (lambda: ([pairs(slow_rank), speeds()], [pairs(slow_rank, seed=7), speeds(seed=8)]), 0),
    "change of all": (lambda: ([pairs()], [pairs(lambda i, j: 1.2, seed=7)]), 0),
    "senseless before": (lambda: ([pairs(), without_labels(speeds())], [pairs(slow_rank, seed=7), speeds()]), 1),
    "new device": (
        lambda: (
            [pairs(), speeds()], [with_new_devices(each, 5) for each in (pairs(slow_rank, seed=7), speeds(seed=8))],
        ), 1,
    ),
    "new devices": (lambda: ([pairs(hosts=TWELVE)], [with_new_devices(pairs(hosts=TWELVE, seed=7), *range(12))]), 0),
    "other rounds": (lambda: ([of_rounds(pairs(), 0, 1, 2)], [of_rounds(pairs(seed=5), 3, 4, 5)]), 3),
    "other amounts": (lambda: ([pairs(), speeds()], [pairs(seed=7), of_amount(speeds(seed=5), 2)]), 0),
    "two ranks": (lambda: ([pairs(hosts=TWO)], [pairs(lambda i, j: 3.0 if i == 1 else 1.0, hosts=TWO, seed=4)]), 0),
    "other ranks": (lambda: ([pairs(hosts=HOSTS[:6])], [pairs()]), 1),  # what was measured of six is missing
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_change_of_acceptance_names_what_changed(tmp_path, capsys, golden, name):
    """A fault that lasts is named by the verdicts of both acceptances; the comparison does not name it."""
    sides, code = CHANGES[name]
    for side, records in zip("ab", sides(), strict=True):
        write_all(tmp_path / side, records)
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == code
    out = capsys.readouterr().out
    golden(out[out.index("What changed") : out.index("\nwrote")])


def test_report_begins_with_verdict(tmp_path):
    place = write_all(tmp_path / "sweep", [pairs(slow_rank), speeds()])
    table = analysis.load(place)
    lines = screen_of(table).text(width=400).splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["OUT OF LINE", "rank 2 on n1 (GPU-2, PCI 0000"]
    other = analysis.load(place, write_all(tmp_path / "more", [make_record()]))
    assert screen_of(other).answers[0] == screen_of(table).answers[0]
    assert any("allreduce" in line for line in screen_of(other).answers)
