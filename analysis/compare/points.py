"""Match the cases of several runs by their labels, and count their outcomes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchkit.record.naming import depends_on_time
from benchkit.record.record import HARMLESS, UNFINISHED

Labels = tuple[tuple[str, Any], ...]
"""Of a case, in its record's order; empty for the outcome of a whole job."""
OK = "ok"
MISSING, NO_CASE, LEFT_OUT = "missing", "no such case", "left out"
"""In place of a status: there is no record, or no such case in it; or the suite left it out."""


@dataclass(frozen=True)
class CaseOutcome:
    """The outcome of a case in a run: its status and the reason."""

    status: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {self.reason}" if self.reason else self.status


@dataclass
class CaseOutcomes:
    """One run of a point: the outcomes of its cases, by their labels."""

    outcomes: dict[Labels, CaseOutcome] = field(default_factory=dict)

    def may_have(self, labels: Labels) -> bool:
        """Return whether the run may have been planned to measure a case."""
        return not self.outcomes or any({*job_labels} <= {*labels} for job_labels in self.outcomes)

    def outcome_of(self, labels: Labels) -> CaseOutcome:
        """Return the outcome of a case; that of its job where the job ended as a whole.

        A job that fails as a whole, or does not fit, may have fewer labels than its cases.
        """
        if labels in self.outcomes:
            return self.outcomes[labels]
        for job_labels, outcome in self.outcomes.items():
            if {*job_labels} < {*labels} and outcome.status != OK:
                return outcome
        if not self.outcomes:
            return CaseOutcome(MISSING)
        return CaseOutcome(LEFT_OUT if depends_on_time(dict(labels)) else NO_CASE)


def labels_in(runs: Sequence[CaseOutcomes]) -> list[Labels]:
    """Return the labels of all cases, without those of jobs that ended as a whole.

    Where no run reached its cases, the job stands for them.
    """
    items = [item for run in runs for item in run.outcomes.items()]
    measured = {labels for labels, outcome in items if outcome.status == OK}
    every = dict.fromkeys(labels for labels, _ in items)
    return [
        labels
        for labels in every
        if labels in measured or not any({*labels} < {*other} for other in every)
    ]


@dataclass(frozen=True)
class OutcomeCounts:
    """Counts of outcomes of the planned runs of a point, on one side of a comparison.

    Attributes:
        unmeasured: planned runs without a result, `failed` or not: skipped, unavailable, never
            made.
    """

    planned: int
    unmeasured: int = 0
    failed: int = 0

    def is_worse_than(self, other: "OutcomeCounts") -> bool:
        return (
            self.unmeasured * other.planned > other.unmeasured * self.planned
            or self.failed * other.planned > other.failed * self.planned
        )


def planned_statuses(outcomes: Iterable[CaseOutcome], is_baseline: bool) -> Counter[str]:
    """Count the planned runs by status.

    A case that the suite left out was not planned, nor was one that is new in the candidate.
    """
    statuses = Counter(outcome.status for outcome in outcomes)
    del statuses[LEFT_OUT]
    if is_baseline and {*statuses} == {NO_CASE}:
        statuses.clear()
    return statuses


def count_outcomes(statuses: Counter[str]) -> OutcomeCounts:
    not_failed = (OK, *HARMLESS, *UNFINISHED, MISSING, NO_CASE)
    failed = sum(number for status, number in statuses.items() if status not in not_failed)
    return OutcomeCounts(statuses.total(), statuses.total() - statuses[OK], failed)
