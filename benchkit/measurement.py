"""What timing a case gives: raw samples of all ranks, and how they came about."""

from dataclasses import dataclass, field

from benchkit.statistics import block_medians, slowest_rank


@dataclass
class Measurement:
    """The raw samples of one case: seconds per call, as [rank][iteration].

    start_offsets_s: when each rank started, after the first to start, per iteration. regions_s: per region seconds per
    call, as [rank][iteration]. stopped_by: target_rel_ci, max_iterations or max_seconds. converged: whether the target
    was met; None where there was none. starved: why it was given up for want of memory.
    """

    calls_per_sample: int = 1
    block_iterations: int = 1
    blocks_per_exchange: int = 1
    warmup_s: list[list[float]] = field(default_factory=list)
    samples_s: list[list[float]] = field(default_factory=list)
    start_offsets_s: list[list[float]] = field(default_factory=list)
    regions_s: dict[str, list[list[float]]] = field(default_factory=dict)
    elapsed_s: float = 0.0
    stopped_by: str = ""
    converged: bool | None = None
    block_medians_s: list[float] = field(default_factory=list)
    starved: str = ""

    def num_samples(self) -> int:
        return len(self.samples_s[0]) if self.samples_s else 0

    def add(self, samples: list[list[float]], starts: list[list[float]], regions: dict[str, list[list[float]]]) -> None:
        """Appends whole blocks, or the rest at the end: [rank][iteration]."""
        if not self.samples_s:
            self.samples_s = [[] for _ in samples]
            self.start_offsets_s = [[] for _ in samples]
            self.regions_s = {name: [[] for _ in samples] for name in regions}
        self.block_medians_s += block_medians(slowest_rank(samples), self.block_iterations).tolist()
        first = [min(column) for column in zip(*starts, strict=True)]
        for rank, (durations, began) in enumerate(zip(samples, starts, strict=True)):
            self.samples_s[rank] += durations
            self.start_offsets_s[rank] += [start - zero for start, zero in zip(began, first, strict=True)]
            for name, spent in regions.items():
                self.regions_s[name][rank] += spent[rank]
