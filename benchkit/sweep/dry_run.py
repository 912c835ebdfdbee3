"""`--dry-run`: forecast the points of a sweep, without starting ranks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.api.keys import RunConfig
from benchkit.api.memory import host_available_bytes
from benchkit.errors import Unavailable
from benchkit.point.agent_group import AgentGroup, all_gather_facts
from benchkit.point.placement import Placement, backend_mismatch, place_ranks
from benchkit.point.point import Point, new_record
from benchkit.record.naming import format_bytes, format_duration
from benchkit.record.record import STATUSES, TIMEOUT
from benchkit.sweep import manifest
from benchkit.sweep.agenda import Agenda, agenda_of
from benchkit.sweep.forecast import (
    SWEEP_S,
    Expectation,
    Expected,
    Total,
    model_point,
    needed_bytes_of,
    read_history,
    shortages,
    this_machine,
)
from benchkit.sweep.manifest import PointEntry, merge_entries
from benchkit.sweep.progress import point_head
from benchkit.sweep.resume import Resume
from benchkit.sweep.sweep_folder import require_unused
from launch.agents.group import single_agent


@dataclass(frozen=True)
class PointForecast:
    """Forecast of a point.

    Attributes:
        needed: memory of its ranks, as text; "" if only they will know.
        status: ok, or the expected status, for the reason `problem`.
        remarks: on its cores, on cases that would be skipped, on its timeout.
    """

    head: str
    needed: str
    status: str
    problem: str
    expected: Expected
    remarks: Sequence[str] = ()

    def __str__(self) -> str:
        if self.problem:
            return f"{self.head}  {self.status.upper()}: {self.problem}"
        memory = self.needed or "memory not known"
        return f"{self.head}  {', '.join([self.time_text(), memory, *self.remarks])}"

    def time_text(self) -> str:
        times = self.expected
        about, most = format_duration(times.seconds), format_duration(times.most_s)
        return f"about {about} ({times.basis}), at most {most}"

    @property
    def is_measured(self) -> bool:
        return self.status in ("ok", TIMEOUT)


def agenda(folder: Path, points: Sequence[PointEntry], resume_options: Resume | None) -> Agenda:
    """Return the agenda of a command line; write nothing.

    Raise ConfigError if the folder holds records of another sweep, or a wrong manifest.
    """
    if resume_options is None or not manifest.has_sweep(folder):
        require_unused(folder, [entry.folder for entry in points])
        return agenda_of(folder, points, [None] * len(points))
    entries = merge_entries(manifest.read(folder).points, points)
    return agenda_of(folder, entries, [None] * len(entries), resume_options.retry)


def forecasts(points: Sequence[Point], outputs: Path, runs_here: bool) -> list[PointForecast]:
    """Forecast points without starting ranks or writing files.

    `outputs` holds the folders of earlier sweeps. Devices and memory matter if the points run here.
    """
    history = read_history(outputs, this_machine() if runs_here else None)
    agents = single_agent()
    group = AgentGroup(agents, all_gather_facts(agents)) if runs_here else None
    free_bytes = host_available_bytes() if runs_here else None
    return [forecast(point, history, group, free_bytes) for point in points]


def forecast(
    point: Point, history: Expectation, group: AgentGroup | None, free_bytes: int | None
) -> PointForecast:
    config = point.config
    plan = place_ranks(config, group) if group else point.provisional_placement()
    head = point_head(new_record(point, plan))
    needed_bytes = needed_bytes_of(config, plan.world_size)
    times = history.expect(model_point(point, plan, free_bytes))
    status, problem = "unavailable", unavailable_reason(config, plan, runs_here=group is not None)
    remarks = [plan.oversubscription] if plan.oversubscription else []
    if not problem:
        reasons = shortages(config, plan.world_size, free_bytes)
        status, problem = ("skipped", reasons[""]) if "" in reasons else ("ok", "")
        remarks += [f"{labels} SKIPPED: {why}" for labels, why in reasons.items()]
    if status == "ok" and times.ranks_s > config.timeout_s:
        status = TIMEOUT
        needs = f"about {format_duration(times.ranks_s)} ({times.basis})"
        problem = f"{needs}, timeout_s={config.timeout_s:g}"
    elif times.ranks_most_s > config.timeout_s:
        remarks.append(f"may exceed timeout_s={config.timeout_s:g}")
    return PointForecast(
        head, needed_text(plan.world_size, needed_bytes), status, problem, times, remarks
    )


def needed_text(world_size: int, needed_bytes: float | None) -> str:
    """Return the memory of all ranks as text: "2 x 20 MiB"; "" if unknown."""
    return f"{world_size} x {format_bytes(needed_bytes)}" if needed_bytes else ""


def unavailable_reason(config: RunConfig, plan: Placement, runs_here: bool) -> str:
    """Return the reason why no rank can run a point, or ""."""
    reason = plan.problem or backend_mismatch(config) or config.unsuited()
    if not reason and runs_here and config.backend.name != "gloo":  # every torch has gloo
        from benchkit.rank.backends import require_built  # loads torch, which takes a second

        try:
            require_built(config.backend.name)
        except Unavailable as error:
            reason = str(error)
    return reason


def format_forecasts(
    point_forecasts: Sequence[PointForecast], num_settled: int, total: Total
) -> list[str]:
    width = len(str(len(point_forecasts)))
    lines = [
        f"[{i:>{width}}/{len(point_forecasts)}] {point}"
        for i, point in enumerate(point_forecasts, 1)
    ]
    counts = Counter(point.status for point in point_forecasts)
    parts = [f"{counts['ok']} of {len(point_forecasts)} points can run"] if point_forecasts else []
    parts += [f"{counts[name]} {name}" for name in STATUSES if counts[name] and name != "ok"]
    if num_settled:
        parts.append(f"{num_settled} measured already")
    if bases := Counter(point.expected.basis for point in point_forecasts if point.is_measured):
        by = ", ".join(f"{count} {basis}" for basis, count in bases.items())
        parts.append(f"{total} ({by})")
    return [*lines, "", "; ".join(parts), "Nothing was run (--dry-run)."]


def total_of(point_forecasts: Sequence[PointForecast], settled: Sequence[str]) -> Total:
    """Return the forecast of a sweep; `settled` has the statuses of its measured points."""
    measured = [point.expected for point in point_forecasts if point.is_measured]
    seconds = SWEEP_S + sum(times.seconds for times in measured)
    most_s = 6 * SWEEP_S + sum(times.most_s for times in measured)
    return Total([*settled, *(point.status for point in point_forecasts)], seconds, most_s)
