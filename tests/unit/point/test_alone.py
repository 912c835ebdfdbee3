from contextlib import nullcontext

import pytest
from benchkit.api.case import Case, Components
from benchkit.record.files import FILE_NAME
from benchkit.record.record import ErrorReport, Measured

from tests.support import fakes
from tests.support.configs import agent_group, config
from tests.support.entries.point import (
    Point,
    PointRun,
    RanksOutcome,
    ReusableRanks,
    archive_attempt,
    choose_isolated_cases,
    point,
    ranks,
)
from tests.support.entries.rank import select_isolated
from tests.support.records import as_case


def timed(name, seconds, **changes):
    return as_case(labels={"way": name}, samples_s=[[seconds] * 3], **changes)


@pytest.mark.parametrize(
    ("cases", "kept"),
    [
        ([timed("only", 1)], []),
        ([timed("base", 3), timed("slow", 2, baseline=0), timed("fast", 1, baseline=0)], ["base", "fast"]),
        ([timed("base", 1), timed("slow", 2, baseline=0)], ["base"]),
        ([timed("first", 3), timed("slow", 2), timed("fast", 1)], ["first", "fast"]),
        ([timed("part", 0.1, is_component=True), timed("base", 3), timed("a", 2, baseline=1)], ["base", "a"]),
        (
            [timed("b", 3), timed("a", 2, baseline=0), timed("d", 5), timed("c", 4, baseline=2)],
            ["b", "a", "d", "c"],
        ),
        ([timed("base", 3, status="invalid"), timed("a", 2, baseline=0)], ["a"]),
    ],
)
def test_baseline_and_best_are_timed_alone(cases, kept):
    assert [case.labels["way"] for case in choose_isolated_cases(cases, always=True)] == kept


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Measures a point whose ranks end as told; returns the record and the labels that ran alone."""

    def run(together, alone=None, broadcast=lambda own, kind: own, when="auto"):
        ran = []

        def run_ranks(self, ranks, folder, only=None, idle_pids=()):
            if only is None:
                return together
            ran.append((only, folder.name))
            return alone(only) if alone else RanksOutcome("ok")

        monkeypatch.setattr(PointRun, "run_ranks", run_ranks)
        monkeypatch.setattr(ranks, "fresh_ranks", lambda group: nullcontext())
        monkeypatch.setattr(point, "fresh_ranks", lambda group: nullcontext())
        group = agent_group("n1")
        group.agents.broadcast = broadcast
        asked = config(ranks="fresh", measure=fakes.plan(alone=when))
        attempt = point.begin_point(Point(asked, tmp_path, []), ReusableRanks(group), 1)
        attempt.measure([])
        return attempt, ran

    return run


def ended(*cases, **changes):
    return RanksOutcome("ok", measured=Measured(cases=list(cases), **changes))


def test_cases_alone_are_in_record(measured, golden):
    def alone(labels):
        if labels == {"way": "b"}:
            return RanksOutcome("timeout", ErrorReport(message="no end within 5 s\nrank 0 in step"))
        return ended(timed("a", 0.5))

    before = ended(timed("a", 1), timed("b", 0.8, baseline=0), warnings=["w"])
    attempt, ran = measured(before, alone)
    record = attempt.record
    assert ran == [({"way": "a"}, "alone_0"), ({"way": "b"}, "alone_1")]
    assert [case.typical_s for case in record.alone] == [0.5]
    golden("\n".join(record.warnings))
    assert (record.status, record.cases) == ("ok", before.measured.cases)
    assert attempt.phases_s["alone"] >= 0


def test_other_agents_run_what_agent_0_chose(measured):
    _, ran = measured(RanksOutcome("ok"), broadcast=lambda own, kind: [{"way": "a"}])
    assert ran == [({"way": "a"}, "alone_0")]


@pytest.mark.parametrize(("names", "when", "labels"), [("ab", "auto", ""), ("ab", "always", "ab"), ("a", "always", "")])
def test_job_without_baseline_is_timed_if_asked(measured, names, when, labels):
    attempt, ran = measured(ended(*(timed(name, 2 - index) for index, name in enumerate(names))), when=when)
    assert [only["way"] for only, _ in ran] == list(labels)
    assert labels or "alone" not in attempt.phases_s


def test_case_that_is_kept_refers_to_no_other():
    base = Case(labels={"way": "base"})
    case = Case(labels={"way": "a"}, baseline=base, components=Components(computation=base))
    kept = select_isolated([base, case], {"way": "a"})
    assert (kept.labels, kept.baseline, kept.components) == ({"way": "a"}, None, Components())
    with pytest.raises(ValueError, match="'a'"):
        select_isolated([base], {"way": "a"})


def test_logs_of_an_earlier_attempt_are_kept(tmp_path):
    (tmp_path / "alone_0").mkdir()
    for name in (FILE_NAME, "rank_0.log", "alone_0/rank_0.log"):
        (tmp_path / name).write_text(name)
    assert archive_attempt(tmp_path) == 2
    assert (tmp_path / "attempt_1_alone_0" / "rank_0.log").read_text() == "alone_0/rank_0.log"
    assert not (tmp_path / "alone_0").exists()
