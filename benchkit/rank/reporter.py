"""The report of rank 0: cases, warnings, devices and settings."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields

from benchkit.api.case import Case
from benchkit.api.keys import COLD, RunConfig
from benchkit.rank.assignment import Assignment, RankReport, store_partial_report
from benchkit.rank.calibration import slowdown_warnings
from benchkit.rank.devices import torch_settings
from benchkit.rank.job import find_not_finite
from benchkit.rank.prober import Prober
from benchkit.rank.run_cases import RankRun
from benchkit.record.record import CaseRecord, Measured, RankUse, SlowdownReport

PROBED_BEFORE = "calls were probed before the first ones: part of what they load was loaded already"
"""Warning: calls for a cost model or a throttle preceded the first calls."""


@dataclass(frozen=True)
class Reporter:
    """Builds the report of rank 0, at the end and from time to time before."""

    assignment: Assignment
    run: RankRun
    cases: Sequence[Case]
    prober: Prober
    slowdown: SlowdownReport | None
    rank_use: RankUse

    def report(self, records: list[CaseRecord], at_end: Sequence[str] = ()) -> RankReport:
        """Return the report so far; `at_end` are warnings that are known only at the end."""
        is_cold = self.run.config.measure.mode == COLD
        measured = Measured(
            cases=records,
            clock=self.run.clock.name,
            slowdown=self.slowdown,
            warnings=[
                *([PROBED_BEFORE] if is_cold and self.prober.is_used else []),
                *at_end,
                *(slowdown_warnings(self.slowdown) if self.slowdown else []),
                *itertools.chain.from_iterable(case.warnings for case in self.cases),
                *self.run.watch.warnings,
            ],
            rank_devices=self.run.watch.devices.of_ranks,
            torch_settings=torch_settings(),
            rank_use=self.rank_use,
        )
        return RankReport(measured, self.run.stopwatch.began_s)

    def store(self, records: list[CaseRecord]) -> None:
        """Store the report so far for the agent, which reads it if the point does not end."""
        store_partial_report(self.report(records), self.assignment.folder)


def case_warnings(config: RunConfig, reports: Sequence[CaseRecord]) -> list[str]:
    """Return the warnings about these cases beyond those of their suite."""
    return [*shared_process_warnings(config, reports), *dict.fromkeys(not_finite_warnings(reports))]


def not_finite_warnings(reports: Sequence[CaseRecord]) -> list[str]:
    """Return a warning per case whose details JSON cannot represent."""
    not_finite_details = [
        (report.labels, ", ".join(find_not_finite(report.details))) for report in reports
    ]
    return [
        f"case {labels}: details without a value: {names}"
        for labels, names in not_finite_details
        if names
    ]


def shared_process_warnings(config: RunConfig, reports: Sequence[CaseRecord]) -> list[str]:
    """Return a warning if several cases shared the processes whose first calls were timed."""
    number = sum(bool(report.samples_s) for report in reports)
    if config.measure.mode != COLD or number < 2:
        return []
    return [
        f"{number} cases were interleaved in the same processes, in random order: only one of "
        "them was first, the others found libraries and kernels loaded; for one case per point: "
        f"{' '.join(sweep_overrides(config)) or 'choose one by the keys of the suite'}"
    ]


def sweep_overrides(config: RunConfig) -> list[str]:
    """Return the overrides that make points of the keys whose lists select cases."""
    values_by_key = {item.name: getattr(config, item.name) for item in fields(config)}
    return [
        f"{name}={','.join(f'[{value}]' for value in values)}"
        for name, values in values_by_key.items()
        if isinstance(values, list) and len(values) > 1
    ]
