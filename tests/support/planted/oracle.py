"""What planted durations say of each case: what tables must show.

Imports nothing of benchkit and shares no statistics with it. It reads what happened in true time, not what clocks
showed.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, median, stdev
from typing import Any
from zlib import crc32

DRAWS = [random.Random(number).random() for number in range(1009)]
REGION_SHARES = (0.3, 0.5)
"""Of a call's time, and then of what is left of it."""


@dataclass(frozen=True)
class Plant:
    """How long calls take, and what the clocks of hosts show; all in seconds, or factors.

    Attributes:
        noise: constant, jitter, outliers, bimodal or drift.
        slow_rank: how many times slower the last rank is, whatever `hardware.slowdown` says.
        skew_s: by how much each rank leaves a barrier later than the one before.
        offset_s: what the second host's clock shows more.
        error_s: of that offset as agents measure it; they state `uncertainty_s`.
        launch_s: of a call on a GPU, for its host.
        run_factor, alone_factor, fresh_factor: of all calls of a run, of cases timed alone, and in fresh ranks.
        call_s: of the case that takes least.
        spread: how much more other cases take.
        after_barrier_s: what the first call of each sample takes beyond the others.
        first_call_s: what the first call of each case takes; 0 for no more than the others.
        waits_for_gpu: whether a call returns only when the GPU has done it.
    """

    noise: str = "constant"
    slow_rank: float = 1.0
    skew_s: float = 0.0
    num_hosts: int = 1
    offset_s: float = 0.0
    error_s: float = 0.0
    uncertainty_s: float = 0.0
    launch_s: float = 2e-5
    run_factor: float = 1.0
    alone_factor: float = 0.8
    fresh_factor: float = 0.9
    call_s: float = 1e-3
    spread: float = 0.37
    after_barrier_s: float = 0.0
    first_call_s: float = 0.0
    waits_for_gpu: bool = False

    def host_of(self, rank: int, num_ranks: int) -> int:
        return 0 if self.num_hosts == 1 else int(rank >= (num_ranks + 1) // 2)

    def clock_offset_s(self, rank: int, num_ranks: int) -> float:
        return self.offset_s * self.host_of(rank, num_ranks)

    def measured_offset_s(self, rank: int, num_ranks: int) -> float:
        """What agents find that has to be added to a rank's clock."""
        return (self.error_s - self.offset_s) * self.host_of(rank, num_ranks)


@dataclass(frozen=True)
class PlantedCase:
    """A case of a job as its suite describes it.

    Attributes:
        ranks: of these, the first ones, take part.
        names_ranks: whether the case says so, or has all.
        waits: whether a call begins on no rank before all have come to it.
        baseline, computation, communication: positions of other cases.
    """

    number: int
    labels: dict[str, Any]
    ranks: int
    names_ranks: bool
    waits: bool
    estimator: str
    regions: tuple[str, ...]
    payload_bytes: int | None
    bus_factor: float | None
    useful_flops: float | None
    executed_flops: float | None
    baseline: int | None
    computation: int | None
    communication: int | None
    unslowed: bool
    on_host: bool
    includes_launches: bool

    @cached_property
    def kind(self) -> int:
        """A number that equal cases of all runs share, small and nearly always unlike that of another case."""
        return crc32(labels_key(self.labels).encode()) % 97

    def work_beside(self, other: "PlantedCase") -> float:
        """How many times as much useful work it does as another case."""
        return (self.useful_flops or 1.0) / (other.useful_flops or 1.0)


def labels_key(labels: dict[str, Any]) -> str:
    return str(sorted((name, str(value)) for name, value in labels.items()))


@dataclass
class Window:
    """One sample of one rank, in true seconds.

    Attributes:
        calls: in the sample; the first was call `first_call` of the case on this rank.
        factor: by which the throttle of the rank slowed it.
        delay_s: for which its GPU was kept busy before the first call, alike on all ranks.
        aligned_s: when all GPUs were ready for the first call but for that delay.
        queued_s: when its host had queued the last call.
        gpu_began_s, gpu_ended_s: of the first call and of the last one on the GPU.
        busy_s: sum of the planted durations.
    """

    rank: int
    calls: int
    began_s: float
    is_block: bool = False
    case: int = -1
    factor: float = 1.0
    ended_s: float = 0.0
    delay_s: float = 0.0
    aligned_s: float = 0.0
    queued_s: float = 0.0
    gpu_began_s: float = math.inf
    gpu_ended_s: float = 0.0
    busy_s: float = 0.0
    num_made: int = 0
    regions_s: dict[str, float] = field(default_factory=dict)


Iteration = tuple[Window, ...]
"""The samples that ranks took together: [rank]."""


@dataclass
class History:
    """What happened in one run of the ranks of a point, in true time."""

    plant: Plant
    num_ranks: int
    device: str
    mode: str
    slowdown: tuple[float, ...]
    is_alone: bool = False
    is_fresh: bool = False
    cases: list[PlantedCase] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)

    def call_s(self, case: PlantedCase, rank: int, call: int, is_first_of_sample: bool) -> float:
        """Seconds of a call of a case on a rank at full speed; calls count from 0, those of checks and warm-ups too."""
        plant = self.plant
        if call == 0 and plant.first_call_s:
            return plant.first_call_s
        step = case.kind * 7 % 5 + 0.005 * case.kind
        seconds = plant.call_s * (1 + plant.spread * step) * plant.run_factor
        if rank and rank == case.ranks - 1:
            seconds *= plant.slow_rank
        if self.is_alone:
            seconds *= plant.alone_factor
        elif self.is_fresh:
            seconds *= plant.fresh_factor
        seconds += plant.after_barrier_s * is_first_of_sample
        return seconds * noise(plant.noise, call, draw=DRAWS[(101 * case.kind + 13 * rank + call) % len(DRAWS)])

    def iterations(self, case: PlantedCase) -> list[Iteration]:
        """The samples of a case that count, of the ranks that take part."""
        rows: list[list[Window]] = [[] for _ in range(self.num_ranks)]
        for window in self.windows:
            if window.is_block and window.case == case.number:
                rows[window.rank].append(window)
        return list(zip(*rows[: case.ranks], strict=True))

    def span(self, case: PlantedCase, window: Window) -> tuple[float, float]:
        """Begin and end of a sample: on a GPU those of its work, or with its launches where these cannot be hidden."""
        if self.device == "cpu" or case.on_host or self.mode == "cold":
            return window.began_s, window.ended_s
        if self.hides_launches(case, window.calls):
            began = window.gpu_began_s
            return began, began + window.busy_s if not case.waits else window.gpu_ended_s
        return max(window.began_s, window.aligned_s), window.gpu_ended_s

    def hides_launches(self, case: PlantedCase, calls: int) -> bool:
        """A GPU is kept busy for twice the time of the launches and 0.2 ms more, for 10 ms at most."""
        return not (
            case.includes_launches
            or self.plant.waits_for_gpu
            or 2 * calls * self.plant.launch_s + LEAD_SLACK_S > LEAD_S
        )

    def seconds(self, case: PlantedCase, window: Window) -> float:
        """Seconds per call of a sample of one rank."""
        began, ended = self.span(case, window)
        return (ended - began) / window.calls

    def times(self, case: PlantedCase, has_starts: bool = True) -> list[float]:
        """Seconds of a call in each iteration, as the case defines the time of all ranks."""
        if case.estimator == "slowest_rank" or not has_starts:
            return [max(self.seconds(case, window) for window in ranks) for ranks in self.iterations(case)]
        earliest = min if case.estimator.startswith("first_start") else max
        found = []
        for ranks in self.iterations(case):
            spans = [self.span(case, window) for window in ranks]
            found.append((max(end for _, end in spans) - earliest(begin for begin, _ in spans)) / ranks[0].calls)
        return found

    def has_starts(self, case: PlantedCase) -> bool:
        """Whether starts on several hosts are known well enough: to a tenth of the median."""
        slowest = self.times(case, has_starts=False)
        return bool(slowest) and self.plant.uncertainty_s <= 0.1 * median(slowest)


LEAD_S, LEAD_SLACK_S = 0.01, 2e-4


def noise(kind: str, call: int, draw: float) -> float:
    return {
        "constant": 1.0,
        "jitter": 0.95 + 0.1 * draw,
        "outliers": 100.0 if call % 20 == 13 else 0.99 + 0.02 * draw,
        "bimodal": 1.5 if call % 5 < 2 else 1.0,
        "drift": 1 + 0.001 * call,
    }[kind]


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


Figures = dict[str, float | int | None]
"""By column; None where the cell must be empty."""


@dataclass
class Truth:
    """All that happened in a point: in the ranks of all cases, in those of one case each, and in fresh ranks.

    Attributes:
        details: what the record says of each case: its suite counts tokens and knows peaks.
    """

    together: History
    alone: Sequence[History] = ()
    fresh: History | None = None
    details: Sequence[dict[str, Any]] = ()

    def __post_init__(self) -> None:
        cases = self.together.cases
        self.has_starts = [self.together.has_starts(case) for case in cases]
        self.times = [self.together.times(case, has) for case, has in zip(cases, self.has_starts, strict=True)]

    @cached_property
    def figures(self) -> list[Figures | None]:
        """What the table must say of each case; None for one that was not timed."""
        return [self.figures_of(case) if self.times[case.number] else None for case in self.together.cases]

    def figures_of(self, case: PlantedCase) -> Figures:
        own_s = self.times[case.number]
        return {
            **time_figures(own_s),
            **self.sample_figures(case),
            **self.arrival_figures(case),
            **rate_figures(case, median(own_s), self.details[case.number] if self.details else {}),
            **self.comparison_figures(case),
            **self.alone_figures(case),
            **self.fresh_figures(case),
            **self.region_figures(case),
            **self.launch_figures(case),
            **(first_call_figures(own_s) if self.together.mode == "cold" else {}),
        }

    def sample_figures(self, case: PlantedCase) -> Figures:
        """Of the samples of single ranks: OSU's mean and spikes."""
        history, iterations = self.together, self.together.iterations(case)
        by_rank = list(zip(*([history.seconds(case, w) for w in ranks] for ranks in iterations), strict=True))
        spikes = [[value > 5 * median(row) for value in row] for row in by_rank]
        together = list(zip(*spikes, strict=True))
        everywhere, somewhere = sum(map(all, together)), sum(map(any, together))
        calls = iterations[0][0].calls
        return {
            "calls": calls,
            "osu_mean_s": fmean(value for row in by_rank for value in row) if calls == 1 else None,
            "spikes_all_share": everywhere / len(together),
            "spikes_some_share": (somewhere - everywhere) / len(together),
        }

    def arrival_figures(self, case: PlantedCase) -> Figures:
        """Of starts and ends on one clock."""
        history = self.together
        if not self.has_starts[case.number] or history.device == "cuda":
            return dict.fromkeys(("start_skew_s", "makespan_s", "straggler_rank", "straggler_share"))
        skews, makespans, last = [], [], [0] * case.ranks
        for ranks in history.iterations(case):
            starts, ends = zip(*(history.span(case, window) for window in ranks), strict=True)
            skews.append(max(starts) - min(starts))
            makespans.append((max(ends) - max(starts)) / ranks[0].calls)
            latest = [rank for rank, end in enumerate(ends) if end >= max(ends) - SAME_S]
            if len(latest) == 1:
                last[latest[0]] += 1
        found: Figures = {"start_skew_s": median(skews), "makespan_s": median(makespans)}
        if case.ranks == 1 or not any(last):
            return found
        straggler = last.index(max(last))
        return found | {"straggler_rank": straggler, "straggler_share": last[straggler] / len(skews)}

    def comparison_figures(self, case: PlantedCase) -> Figures:
        """Against the case's baseline and its components."""
        found: Figures = {}
        own_s = median(self.times[case.number])
        if base := self.timed(case.baseline):
            speedup = case.work_beside(base) * median(self.times[base.number]) / own_s
            found["paired_speedup"] = speedup
            if (case.names_ranks, case.ranks) != (base.names_ranks, base.ranks):
                found["scaling_efficiency"] = speedup * base.ranks / case.ranks
        communication, computation = self.timed(case.communication), self.timed(case.computation)
        if communication:
            sent_s = median(self.times[communication.number])
            found["comm_share"] = sent_s / own_s
            if computation:
                computed_s = median(self.times[computation.number])
                found["limit_share"] = max(computed_s, sent_s) / own_s
                if self.together.plant.noise == "constant":
                    found["overlap"] = (computed_s + sent_s - own_s) / min(computed_s, sent_s)
        return found

    def timed(self, number: int | None) -> PlantedCase | None:
        return self.together.cases[number] if number is not None and self.times[number] else None

    def alone_figures(self, case: PlantedCase) -> Figures:
        found: Figures = {"alone_s": self.alone_s(case), "turns_ratio": None}
        if found["alone_s"]:
            found["turns_ratio"] = median(self.times[case.number]) / found["alone_s"]
            base = None if case.baseline is None else self.together.cases[case.baseline]
            if base and (base_s := self.alone_s(base)):
                found["alone_speedup"] = case.work_beside(base) * base_s / found["alone_s"]
        return found

    def alone_s(self, case: PlantedCase) -> float | None:
        for history in self.alone:
            if history.cases[0].labels == case.labels:
                return self.like(case, history, history.cases[0])
        return None

    def like(self, case: PlantedCase, other: History, same: PlantedCase) -> float | None:
        """The median of a case in other ranks, where it is judged as in these."""
        has_starts = other.has_starts(same)
        if case.estimator != "slowest_rank" and has_starts != self.has_starts[case.number]:
            return None
        return median(other.times(same, has_starts))

    def fresh_figures(self, case: PlantedCase) -> Figures:
        if self.fresh is None:
            return {"fresh_s": None, "reuse_ratio": None}
        fresh_s = self.like(case, self.fresh, self.fresh.cases[case.number])
        return {"fresh_s": fresh_s, "reuse_ratio": fresh_s and median(self.times[case.number]) / fresh_s}

    def region_figures(self, case: PlantedCase) -> Figures:
        """Seconds in each region, of the rank that is longest in it; a graph has none."""
        if self.together.mode == "graph":
            return {}
        iterations = self.together.iterations(case)
        on_gpu = self.together.device == "cuda"
        return {
            f"{name}_s": 0.0  # the host does nothing there but to queue
            if on_gpu and name.endswith("_on_host")
            else median(max(window.regions_s[name] / window.calls for window in ranks) for ranks in iterations)
            for name in case.regions
        }

    def launch_figures(self, case: PlantedCase) -> Figures:
        """What the host of a GPU takes to queue a call, and whether that sets the pace."""
        if self.together.device == "cpu" or case.on_host or self.together.mode == "cold":
            return {}
        iterations = self.together.iterations(case)
        queueing_s = median(max((w.queued_s - w.began_s) / w.calls for w in ranks) for ranks in iterations)
        calls = iterations[0][0].calls
        # Of launches that set the pace all but the last call's kernel is hidden behind them.
        sets_pace = queueing_s >= max(0.9, calls / (calls + 1)) * median(self.times[case.number])
        share = queueing_s / median(self.times[case.number])
        return {"queueing_on_host_s": queueing_s, "host_bound": share if sets_pace else None}


SAME_S = 1e-12
"""Ends as close as this are one: sums of floating-point numbers round."""


def time_figures(own_s: Sequence[float]) -> Figures:
    return {
        "median_s": median(own_s),
        "mean_s": fmean(own_s),
        "std_s": stdev(own_s) if len(own_s) > 1 else None,
        "min_s": min(own_s),
        "max_s": max(own_s),
        **{f"p{percent}_s": quantile(own_s, percent / 100) for percent in (25, 75, 95, 99)},
        "num_samples": len(own_s),
    }


def rate_figures(case: PlantedCase, median_s: float, details: dict[str, Any]) -> Figures:
    found: Figures = {}
    if case.useful_flops:
        found["useful_tflop_per_s"] = case.useful_flops / median_s / 1e12
    if case.executed_flops:
        found["executed_tflop_per_s"] = case.executed_flops / median_s / 1e12
    if case.payload_bytes and case.bus_factor is not None:
        found["algbw_gb_per_s"] = case.payload_bytes / median_s / 1e9
        found["busbw_gb_per_s"] = found["algbw_gb_per_s"] * case.bus_factor
    if tokens := details.get("tokens_per_call"):
        found["tokens_per_second"] = tokens / median_s
    if ideal_s := details.get("ideal_s"):
        found["efficiency"] = ideal_s / median_s
    if (peak := details.get("peak_tflop_per_s")) and case.useful_flops:
        found["mfu_full"] = case.useful_flops / median_s / (peak * 1e12)
    return found


def first_call_figures(own_s: Sequence[float]) -> Figures:
    if len(own_s) < 4:
        return {"first_call_s": None, "warm_s": None}
    return {"first_call_s": own_s[0], "warm_s": median(own_s[len(own_s) // 2 :])}


def over_runs(values: Iterator[tuple[float, int]]) -> float:
    """The median over runs of the median in each, of values with the number of their run."""
    by_run: dict[int, list[float]] = {}
    for value, run in values:
        by_run.setdefault(run, []).append(value)
    return median(map(median, by_run.values()))
