"""`--dry-run`: the points of a sweep with what is known of them before any rank starts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.api.case import shortage
from benchkit.api.keys import RunConfig
from benchkit.api.memory import host_available_bytes
from benchkit.errors import Unavailable
from benchkit.point.agents import AgentGroup, gather_facts
from benchkit.point.placement import Placement, place_ranks, unsuited
from benchkit.point.point import Point, new_record
from benchkit.record.naming import readable
from benchkit.sweep import manifest
from benchkit.sweep.agenda import Agenda, agenda_of
from benchkit.sweep.folder import require_unused
from benchkit.sweep.manifest import Entry, merged
from benchkit.sweep.progress import duration, point_head
from benchkit.sweep.resume import Resume
from benchkit.sweep.tally import earlier_seconds
from launch.agents.group import alone


@dataclass(frozen=True)
class Forecast:
    """What is known of a point before it runs.

    Attributes:
        needed: memory of its ranks, in words; "" where only they will know.
        status: ok; unavailable or skipped if it could not run, for the reason `problem`.
        seconds: how long the same point took in an earlier sweep.
        per_case_s: the most that a case is timed, with its warm-up, in seconds.
        most_s: the most that all cases are timed, in seconds; None if their number is unknown.
        crowding: how many ranks share how many cores, if they have more threads.
    """

    head: str
    needed: str
    status: str
    problem: str | None
    seconds: float | None
    per_case_s: float
    most_s: float | None = None
    crowding: str | None = None

    def __str__(self) -> str:
        if self.problem:
            return f"{self.head}  {self.status.upper()}: {self.problem}"
        known = [self.time(), self.needed or "memory not known", self.crowding]
        return f"{self.head}  {', '.join(filter(None, known))}"

    def time(self) -> str:
        if self.seconds is not None:
            return f"about {duration(self.seconds)}, as before"
        if self.most_s is None:
            return f"up to {duration(self.per_case_s)} per case"
        return f"up to {duration(self.most_s)} of timing"


def agenda(folder: Path, points: Sequence[Entry], asked: Resume | None) -> Agenda:
    """Return which points of a command line are still to be measured; write nothing.

    Raise ConfigError where the folder holds no sweep to go on with, or records of another one.
    """
    if asked is None:
        require_unused(folder, [entry.folder for entry in points])
        return agenda_of(folder, points, [None] * len(points))
    known = merged(manifest.read(folder).points, points)
    return agenda_of(folder, known, [None] * len(known), asked.retry)


def forecasts(
    points: Sequence[Point], keys: Sequence[str], outputs: Path, runs_here: bool
) -> list[Forecast]:
    """Forecast points without starting ranks or writing files.

    `outputs` holds the folders of earlier sweeps. Devices and memory count if the points run here.
    """
    earlier = earlier_seconds(set(keys), outputs)
    agents = alone()
    group = AgentGroup(agents, gather_facts(agents)) if runs_here else None
    free_bytes = host_available_bytes()
    found = []
    for point, key in zip(points, keys, strict=True):
        plan = place_ranks(point.config, group) if group else point.unplaced()
        measure = point.config.measure
        needed_bytes = needed(point.config, plan.world_size)
        status, problem = obstacle(point, plan, needed_bytes, free_bytes if runs_here else None)
        found.append(
            Forecast(
                point_head(new_record(point, plan)),
                needed_text(plan.world_size, needed_bytes),
                status,
                problem,
                earlier.get(key),
                measure.max_seconds + measure.max_warmup_seconds,
                point.config.most_seconds(),
                plan.crowding,
            )
        )
    return found


def needed(config: RunConfig, world_size: int) -> float | None:
    """Return the bytes of each rank where its device has them; None if unknown."""
    on_device = config.needed_bytes(world_size)
    if on_device is None or config.hardware.device != "cpu":
        return on_device
    return on_device + config.host_bytes(world_size)


def needed_text(world_size: int, needed_bytes: float | None) -> str:
    """Return the memory of all ranks in words: "2 x 20 MiB"; "" if unknown."""
    return f"{world_size} x {readable(needed_bytes)}" if needed_bytes else ""


def obstacle(
    point: Point, plan: Placement, needed_bytes: float | None, free_bytes: int | None
) -> tuple[str, str | None]:
    """Return the status that a point would end with, and why it is not ok.

    `needed_bytes` is that of each rank, None if unknown; `free_bytes` None if it runs elsewhere.
    """
    runs_here = free_bytes is not None
    config = point.config
    lacking = plan.problem or unsuited(config) or config.unsuited()
    if not lacking and runs_here and config.backend.name != "gloo":  # every torch has gloo
        from benchkit.rank.backends import require_built  # loads torch, which takes a second

        try:
            require_built(config.backend.name)
        except Unavailable as error:
            lacking = str(error)
    if lacking:
        return "unavailable", lacking
    if needed_bytes and free_bytes is not None and config.hardware.device == "cpu":
        lack = shortage(needed_bytes, plan.world_size, free_bytes)
        return ("skipped", lack) if lack else ("ok", None)
    return "ok", None


def described(found: Sequence[Forecast], num_settled: int) -> list[str]:
    width = len(str(len(found)))
    lines = [f"[{i:>{width}}/{len(found)}] {point}" for i, point in enumerate(found, 1)]
    counts = Counter(point.status for point in found)
    parts = [f"{counts['ok']} of {len(found)} points can run"] if found else []
    parts += [f"{counts[name]} {name}" for name in ("unavailable", "skipped") if counts[name]]
    if num_settled:
        parts.append(f"{num_settled} measured already")
    return [*lines, "", "; ".join([*parts, *times(found)]), "Nothing was run (--dry-run)."]


def times(found: Sequence[Forecast]) -> Iterator[str]:
    """Yield how long the points that can run take together, by what is known of them."""
    able = [each for each in found if each.status == "ok"]
    before = [each.seconds for each in able if each.seconds is not None]
    new = [each for each in able if each.seconds is None]
    most = [each.most_s for each in new if each.most_s is not None]
    unknown = [each.per_case_s for each in new if each.most_s is None]
    if before:
        yield f"{len(before)} took {duration(sum(before))} together before"
    if most:
        yield f"{len(most)} new, up to {duration(sum(most))} of timing"
    if unknown:
        yield f"{len(unknown)} new, up to {duration(sum(unknown))} for one case of each"
