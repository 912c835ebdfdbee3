"""The report of rank 0: what was measured, and what its readers must know."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields

from benchkit.api.case import Case
from benchkit.api.keys import COLD, RunConfig
from benchkit.rank.assignment import Assignment, RankReport, store_partial_report
from benchkit.rank.calibration import slowdown_warnings
from benchkit.rank.devices import torch_settings
from benchkit.rank.job import not_finite
from benchkit.rank.prober import Prober
from benchkit.rank.run_cases import RankRun
from benchkit.record.record import CaseRecord, Measured, RankUse, SlowdownReport

PROBED_BEFORE = "calls were probed before the first ones: part of what they load was loaded already"
"""A warning about first calls after those for a cost model or a throttle."""


@dataclass(frozen=True)
class Reporter:
    """Make the report of rank 0: at the end, and from time to time before it."""

    assignment: Assignment
    run: RankRun
    cases: Sequence[Case]
    prober: Prober
    slowdown: SlowdownReport | None
    rank_use: RankUse

    def report(self, records: list[CaseRecord], at_end: Sequence[str] = ()) -> RankReport:
        """Return the report so far; `at_end` are warnings that are known only then."""
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


def warnings_of(config: RunConfig, reports: Sequence[CaseRecord]) -> list[str]:
    """Return what readers of these cases must know beyond the warnings of their suite."""
    return [*of_several_cases(config, reports), *dict.fromkeys(odd_details(reports))]


def odd_details(reports: Sequence[CaseRecord]) -> list[str]:
    """Return a warning per case whose details the record cannot hold."""
    found = [(report.labels, ", ".join(not_finite(report.details))) for report in reports]
    return [f"case {labels}: details without a value: {odd}" for labels, odd in found if odd]


def of_several_cases(config: RunConfig, reports: Sequence[CaseRecord]) -> list[str]:
    """Return a warning where cases shared the processes whose first calls were timed."""
    number = sum(bool(report.samples_s) for report in reports)
    if config.measure.mode != COLD or number < 2:
        return []
    return [
        f"{number} cases were interleaved in the same processes, in random order: only one of "
        "them was first, the others found libraries and kernels loaded; for one case per point: "
        f"{' '.join(sweeps_of(config)) or 'choose one by the keys of the suite'}"
    ]


def sweeps_of(config: RunConfig) -> list[str]:
    """Return the overrides that make points of the keys whose lists select cases."""
    chosen = {each.name: getattr(config, each.name) for each in fields(config)}
    return [
        f"{name}={','.join(f'[{value}]' for value in values)}"
        for name, values in chosen.items()
        if isinstance(values, list) and len(values) > 1
    ]
