"""What timing a case gives: raw samples of all ranks, and how they came about."""

from dataclasses import dataclass, field

from benchkit.statistics.estimators import SLOWEST_RANK
from benchkit.statistics.intervals import Array
from benchkit.statistics.summary import iteration_times


@dataclass
class Measurement:
    """The raw samples of one case: seconds per call, as [rank][iteration].

    Attributes:
        calls_per_sample: calls back to back that one sample is the mean of.
        blocks: samples of each block, in order; between blocks other cases had their turns.
        steady: whether the warm-up went on until calls got no faster; None where that was not tried.
        start_offsets_s: when each rank started, after the first to start, per iteration.
        regions_s: per region seconds per call, as [rank][iteration].
        disturbance: per counter of `benchkit.measure.disturbance`, its growth during the samples, by rank; and
            lowest_ghz and highest_ghz, the range of core_ghz() after the blocks.
        stopped_by: target_rel_ci, max_iterations or max_seconds.
        converged: whether the target was met; None where there was none.
        ranks: how many take part, the first ones; None for all.
        estimator: what an iteration's time is, as in `statistics.iteration_times`.
        starved: why it was given up for want of memory.
    """

    calls_per_sample: int = 1
    blocks: list[int] = field(default_factory=list)
    warmup_s: list[list[float]] = field(default_factory=list)
    steady: bool | None = None
    samples_s: list[list[float]] = field(default_factory=list)
    start_offsets_s: list[list[float]] = field(default_factory=list)
    regions_s: dict[str, list[list[float]]] = field(default_factory=dict)
    disturbance: dict[str, list[float]] = field(default_factory=dict)
    elapsed_s: float = 0.0
    stopped_by: str = ""
    converged: bool | None = None
    ranks: int | None = None
    estimator: str = SLOWEST_RANK
    typical_s: float = 0.0
    starved: str = ""

    def num_samples(self) -> int:
        return len(self.samples_s[0]) if self.samples_s else 0

    def times(self) -> Array:
        """One time per iteration, in order: [iteration]."""
        return iteration_times(self.samples_s[: self.ranks], self.start_offsets_s[: self.ranks], self.estimator)

    def add(self, samples: list[list[float]], starts: list[list[float]], regions: dict[str, list[list[float]]]) -> None:
        """Appends a block: [rank][iteration]."""
        if not self.samples_s:
            self.samples_s = [[] for _ in samples]
            self.start_offsets_s = [[] for _ in samples]
            self.regions_s = {name: [[] for _ in samples] for name in regions}
        self.blocks.append(len(samples[0]))
        first = [min(column) for column in zip(*starts, strict=True)]
        for rank, (durations, began) in enumerate(zip(samples, starts, strict=True)):
            self.samples_s[rank] += durations
            self.start_offsets_s[rank] += [start - zero for start, zero in zip(began, first, strict=True)]
            for name, spent in regions.items():
                self.regions_s[name][rank] += spent[rank]

    def add_disturbance(self, growth: dict[str, list[float]]) -> None:
        """Adds what each counter grew by during a block, by rank."""
        for name, by_rank in growth.items():
            before = self.disturbance.get(name, [0.0] * len(by_rank))
            self.disturbance[name] = [a + b for a, b in zip(before, by_rank, strict=True)]

    def add_frequency(self, ghz: list[float]) -> None:
        """Widens the range of each rank's frequency by that after a block."""
        for name, furthest in (("lowest_ghz", min), ("highest_ghz", max)):
            before = self.disturbance.get(name, ghz)
            self.disturbance[name] = list(map(furthest, before, ghz))
