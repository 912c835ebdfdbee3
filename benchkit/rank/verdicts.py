"""What all ranks together find of each case: whether it can run here, and whether it is right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchkit.api.case import Call, Case, noop
from benchkit.api.memory import free_unused
from benchkit.errors import InvalidResult, oom_reason
from benchkit.rank.control_group import ControlGroup, Finding
from benchkit.rank.stopwatch import ignore


@dataclass
class Verdicts:
    """The status of each case of a job so far, alike on all ranks, and the first rank's reason.

    Attributes:
        cases: of the job.
        group: the ranks.
        tell: takes what is done now, in words.
        statuses: by case.
        findings: by case; why its status is not ok.
    """

    cases: Sequence[Case]
    group: ControlGroup
    tell: Callable[[str], None] = ignore
    statuses: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.statuses = ["ok"] * len(self.cases)
        self.findings = [Finding()] * len(self.cases)

    def passing(self) -> list[int]:
        """Returns the positions of the cases that are ok so far."""
        return [index for index, status in enumerate(self.statuses) if status == "ok"]

    def of(self, index: int) -> tuple[str, Finding]:
        """Returns the status of a case, and why it is not ok."""
        return self.statuses[index], self.findings[index]

    def note(self, status: str, reason_of: Callable[[Case], str]) -> None:
        """Gives a status to the cases for which any rank has a reason, of those that are ok.

        All ranks call this together. A case that finds too little memory on the only rank is out
        of memory; of several ranks, others may wait for this one, so there it ends the job.
        """
        indices = self.passing()
        shortages: dict[int, str] = {}
        reasons = []
        for index in indices:
            try:
                reasons.append(reason_of(self.cases[index]))
                continue
            except Exception as error:
                shortages[index] = oom_reason(error)
                if self.group.world_size > 1 or not shortages[index]:
                    raise
            free_unused()  # now, because the exception held the case's tensors
            reasons.append("")
        for index, finding in zip(indices, self.group.first_reason(reasons), strict=True):
            if finding.reason:
                self.statuses[index], self.findings[index] = status, finding
        for index, shortage in shortages.items():
            self.note_oom(index, shortage)

    def note_oom(self, index: int, reason: str) -> None:
        """Marks a case that finds too little memory on the only rank."""
        self.statuses[index], self.findings[index] = "oom", Finding(reason, 0)

    def note_invalid(self) -> None:
        """Verifies the cases that are ok, on all ranks together, and marks those that are wrong."""
        self.note("invalid", lambda case: self.reason_of(case, case.call_once))

    def note_timed(self, call_of: Callable[[int], Call]) -> list[str]:
        """Verifies timed calls of the cases that are ok, and marks those that are wrong.

        Args:
            call_of: returns what makes a call of the case at a position as its samples were taken.

        Returns:
            Of each case what its timed calls computed without a check; "" if nothing.
        """
        used = [0.0] * len(self.cases)

        def reason_of(case: Case) -> str:
            index = self.cases.index(case)
            make = call_of(index)

            def call(prepare: Callable[[], object] = noop) -> Any:
                used[index] = 1.0
                return make(prepare)

            reason = self.reason_of(case, call)
            if not used[index]:
                make()  # A rank with nothing to check: others wait for it at the barrier.
            return reason

        self.note("invalid", reason_of)
        used_by_any = map(max, zip(*self.group.exchange(used), strict=True))
        return [
            case.unchecked if checked else "all: the check makes no timed call"
            for case, checked in zip(self.cases, used_by_any, strict=True)
        ]

    def reason_of(self, case: Case, call: Call) -> str:
        """Returns why a case is wrong, by a call that it checks; "" if it is right."""
        number = 1 + self.cases.index(case)
        self.tell(f"verifying case {number} of {len(self.cases)}")
        try:
            case.verify(call)
        except InvalidResult as error:
            return str(error) or "a wrong result"
        return ""
