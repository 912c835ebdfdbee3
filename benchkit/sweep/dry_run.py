"""`--dry-run`: the points of a sweep with what is known of them before any rank starts."""

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
    """What is known of a point before it runs.

    Attributes:
        needed: memory of its ranks, in words; "" where only they will know.
        status: ok, or how the point would end, for the reason `problem`.
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
        return f"{self.head}  {', '.join([self.time(), memory, *self.remarks])}"

    def time(self) -> str:
        found = self.expected
        about, most = format_duration(found.seconds), format_duration(found.most_s)
        return f"about {about} ({found.basis}), at most {most}"

    @property
    def is_measured(self) -> bool:
        return self.status in ("ok", TIMEOUT)


def agenda(folder: Path, points: Sequence[PointEntry], asked: Resume | None) -> Agenda:
    """Return which points of a command line are still to be measured; write nothing.

    Raise ConfigError where the folder holds records of another sweep, or a manifest that is wrong.
    """
    if asked is None or not manifest.has_sweep(folder):
        require_unused(folder, [entry.folder for entry in points])
        return agenda_of(folder, points, [None] * len(points))
    known = merge_entries(manifest.read(folder).points, points)
    return agenda_of(folder, known, [None] * len(known), asked.retry)


def forecasts(points: Sequence[Point], outputs: Path, runs_here: bool) -> list[PointForecast]:
    """Forecast points without starting ranks or writing files.

    `outputs` holds the folders of earlier sweeps. Devices and memory count if the points run here.
    """
    before = read_history(outputs, this_machine() if runs_here else None)
    agents = single_agent()
    group = AgentGroup(agents, all_gather_facts(agents)) if runs_here else None
    free_bytes = host_available_bytes() if runs_here else None
    return [forecast(point, before, group, free_bytes) for point in points]


def forecast(
    point: Point, before: Expectation, group: AgentGroup | None, free_bytes: int | None
) -> PointForecast:
    config = point.config
    plan = place_ranks(config, group) if group else point.provisional_placement()
    head = point_head(new_record(point, plan))
    needed_bytes = needed_bytes_of(config, plan.world_size)
    found = before.of(model_point(point, plan, free_bytes))
    status, problem = "unavailable", unavailable_reason(config, plan, runs_here=group is not None)
    remarks = [plan.oversubscription] if plan.oversubscription else []
    if not problem:
        lack = shortages(config, plan.world_size, free_bytes)
        status, problem = ("skipped", lack[""]) if "" in lack else ("ok", "")
        remarks += [f"{labels} SKIPPED: {why}" for labels, why in lack.items()]
    if status == "ok" and found.ranks_s > config.timeout_s:
        status = TIMEOUT
        needs = f"about {format_duration(found.ranks_s)} ({found.basis})"
        problem = f"{needs}, timeout_s={config.timeout_s:g}"
    elif found.ranks_most_s > config.timeout_s:
        remarks.append(f"may exceed timeout_s={config.timeout_s:g}")
    return PointForecast(
        head, needed_text(plan.world_size, needed_bytes), status, problem, found, remarks
    )


def needed_text(world_size: int, needed_bytes: float | None) -> str:
    """Return the memory of all ranks in words: "2 x 20 MiB"; "" if unknown."""
    return f"{world_size} x {format_bytes(needed_bytes)}" if needed_bytes else ""


def unavailable_reason(config: RunConfig, plan: Placement, runs_here: bool) -> str:
    """Return why no rank can run a point, or ""."""
    why = plan.problem or backend_mismatch(config) or config.unsuited()
    if not why and runs_here and config.backend.name != "gloo":  # every torch has gloo
        from benchkit.rank.backends import require_built  # loads torch, which takes a second

        try:
            require_built(config.backend.name)
        except Unavailable as error:
            why = str(error)
    return why


def format_forecasts(found: Sequence[PointForecast], num_settled: int, total: Total) -> list[str]:
    width = len(str(len(found)))
    lines = [f"[{i:>{width}}/{len(found)}] {point}" for i, point in enumerate(found, 1)]
    counts = Counter(point.status for point in found)
    parts = [f"{counts['ok']} of {len(found)} points can run"] if found else []
    parts += [f"{counts[name]} {name}" for name in STATUSES if counts[name] and name != "ok"]
    if num_settled:
        parts.append(f"{num_settled} measured already")
    if bases := Counter(each.expected.basis for each in found if each.is_measured):
        by = ", ".join(f"{count} {basis}" for basis, count in bases.items())
        parts.append(f"{total} ({by})")
    return [*lines, "", "; ".join(parts), "Nothing was run (--dry-run)."]


def total_of(found: Sequence[PointForecast], settled: Sequence[str]) -> Total:
    """Return the forecast of a sweep, of which some points are `settled` with these statuses."""
    measured = [each.expected for each in found if each.is_measured]
    seconds = SWEEP_S + sum(each.seconds for each in measured)
    most_s = 6 * SWEEP_S + sum(each.most_s for each in measured)
    return Total([*settled, *(each.status for each in found)], seconds, most_s)
