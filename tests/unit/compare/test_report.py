"""A result as people and machines read it, to the letter."""

import json
import math
from xml.etree import ElementTree

import pytest
from benchkit.compare import report
from benchkit.compare.result import Compared, Finding, Mean, Result
from benchkit.statistics.compare.spread import Spread
from benchkit.statistics.compare.tails import Change
from benchkit.statistics.compare.verdicts import Verdict


def compared(
    name: str, word: str, ratio: float = 1.0, pairs_needed: int | None = None, reason: str = "", **changes: float
) -> Compared:
    found = Verdict(word, ratio, ratio / 1.02, ratio * 1.02, 0.95, 0.01, 12, 0.034, pairs_needed)
    return Compared(
        name=name, arm="env:A=<1>", word=word, reason=reason, verdict=None if reason else found,
        spread=Spread(0.06, 0.05, 0.03), floor=None, floor_of_pairs=0.02, baseline_s=[1e-3] * 12,
        candidate_s=[ratio * 1e-3] * 11 + [math.nan], **changes,
    )  # fmt: skip


@pytest.fixture
def result() -> Result:
    points = [
        compared("data_size=1 timing=latency", "SLOWER", 1.1),
        compared("data_size=10", "FASTER", 0.9, identical_runs=0.2),
        compared("data_size=100", "SAME"),
        compared("data_size=1000", "UNCLEAR", 1.04, 31),
        compared("data_size=2000", "FAILED", math.nan, reason="in 1 of 12 pairs: oom: out of memory"),
        compared("data_size=3000", "FIXED", math.nan, reason="the baseline, in 12 of 12 pairs: crash: killed"),
        compared("data_size=4000", "NEW", math.nan, reason="the baseline, in 12 of 12 pairs: no such case"),
        compared("data_size=5000", "NOT COMPARED", math.nan, reason="in 12 of 12 pairs: timeout: 60 s"),
    ]
    slow = Change(math.log(2), math.log(1.5), math.log(3), 0.001, True)
    return Result(
        id="c0ffee", arms=["plain", "env:A=<1>"], overrides=["+suite=allreduce", "-m"], statistic="p25", fail_on=0.05,
        level=0.05, num_pairs=12, points=points, means=[Mean("env:A=<1>", 9, 1.01, 0.99, 1.03)],
        control=Mean("plain", 1, 0.998, 0.0, math.inf),
        secondary=[
            Finding("data_size=100", "env:A=<1>", "p99", False, slow),
            Finding("data_size=100", "env:A=<1>", "share of slow mode", True, Change(0.1, 0.05, 0.15, 0.001, True)),
            Finding("data_size=10", "env:A=<1>", "median", False, Change(math.log(0.91), -0.2, -0.01, 0.001, True)),
        ],
        remarks=["torch: 2.12.0, 2.13.0"], exit_code=1,
    )  # fmt: skip


def test_texts_are_as_they_were(result, golden):
    """What is printed, and what `--dir` holds for a pull request and for a CI."""
    for text in (report.as_text(result), report.as_markdown(result), report.as_junit(result).decode()):
        golden(text)


def test_junit_fails_what_the_exit_code_fails(result):
    suite = ElementTree.fromstring(report.as_junit(result))
    kinds = [[child.tag for child in case] for case in suite]
    assert kinds == [["failure"], [], [], ["skipped"], ["failure"], [], [], ["skipped"]]
    assert [suite.get(name) for name in ("tests", "failures", "skipped")] == ["8", "2", "2"]


def test_files_are_whole(result, tmp_path):
    report.write(result, tmp_path)
    written = json.loads((tmp_path / "compare_result.json").read_text())
    assert written["points"][0]["candidate_s"][-1] is None  # JSON has no NaN
    assert written["exit_code"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"compare_result.json", "junit.xml", "compare.md"}


def test_a_result_without_points_is_said(result):
    result.points, result.secondary, result.means = [], [], []
    assert "no point\n" in report.as_markdown(result)
