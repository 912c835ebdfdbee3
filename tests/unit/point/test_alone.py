from types import SimpleNamespace

import pytest
from benchkit.api.case import Case, Components
from benchkit.record.files import FILE_NAME
from benchkit.record.record import ErrorReport, Outcome

from tests.support.entries.point import chosen, set_aside, with_alone
from tests.support.entries.rank import keep_alone
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
    assert [case.labels["way"] for case in chosen(cases)] == kept


def agents(*answers):
    """Agents of which the first answers this; with none it is our own answer."""
    return SimpleNamespace(exchange=lambda value, timeout_s: [*answers, value])


def test_cases_alone_are_in_outcome(golden):
    ran = []

    def run(labels, number):
        ran.append((labels, number))
        if labels == {"way": "b"}:
            return Outcome(status="timeout", error=ErrorReport(message="no end within 5 s\nrank 0 in step"))
        return Outcome(status="ok", cases=[timed("a", 0.5)])

    before = Outcome(status="ok", cases=[timed("a", 1), timed("b", 0.8, baseline=0)], warnings=["w"])
    after = with_alone(before, agents(), run, always=False)
    assert ran == [({"way": "a"}, 0), ({"way": "b"}, 1)]
    assert [case.typical_s for case in after.alone] == [0.5]
    golden("\n".join(after.warnings))
    assert (after.status, after.cases) == ("ok", before.cases)
    assert after.phases_s["alone"] >= 0


def test_other_agents_run_what_agent_0_chose():
    ran = []

    def run(labels, number):
        ran.append(labels)
        return Outcome(status="ok")

    with_alone(Outcome(status="ok"), agents([{"way": "a"}]), run, always=False)
    assert ran == [{"way": "a"}]


@pytest.mark.parametrize(("names", "always", "labels"), [("ab", False, ""), ("ab", True, "ab"), ("a", True, "")])
def test_job_without_baseline_is_timed_if_asked(names, always, labels):
    ran = []

    def run(wanted, number):
        ran.append(wanted["way"])
        return Outcome(status="ok")

    before = Outcome(status="ok", cases=[timed(name, 2 - index) for index, name in enumerate(names)])
    after = with_alone(before, agents(), run, always=always)
    assert ran == list(labels)
    assert labels or after == before


def test_case_that_is_kept_refers_to_no_other():
    base = Case(labels={"way": "base"})
    case = Case(labels={"way": "a"}, baseline=base, components=Components(computation=base))
    kept = keep_alone([base, case], {"way": "a"})
    assert (kept.labels, kept.baseline, kept.components) == ({"way": "a"}, None, Components())
    with pytest.raises(ValueError, match="'a'"):
        keep_alone([base], {"way": "a"})


def test_logs_of_an_earlier_attempt_are_kept(tmp_path):
    (tmp_path / "alone_0").mkdir()
    for name in (FILE_NAME, "rank_0.log", "alone_0/rank_0.log"):
        (tmp_path / name).write_text(name)
    assert set_aside(tmp_path) == 2
    assert (tmp_path / "attempt_1_alone_0" / "rank_0.log").read_text() == "alone_0/rank_0.log"
    assert not (tmp_path / "alone_0").exists()
