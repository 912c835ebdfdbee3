"""Holds what timing a case yields: raw samples of all ranks, and how they were taken."""

from dataclasses import dataclass, field

from benchkit.measure.lead import Lead
from benchkit.statistics.estimators import SLOWEST_RANK
from benchkit.statistics.intervals import Array
from benchkit.statistics.summary import iteration_times, slowest_rank

Rows = list[list[float]]
"""One number per rank and iteration: [rank][iteration]."""


@dataclass
class Measurement:
    """The raw samples of one case on all ranks, and how they were taken.

    An iteration is one sample on every rank: all ranks pass a barrier and make the same calls.

    Attributes:
        calls_per_sample: number of calls back to back in one sample; the sample is their mean.
        blocks: number of iterations of each block, in order. Between blocks other cases had
            their turns.
        warmup_s: samples of the warm-up, set aside, in seconds per call: [rank][iteration].
        steady: whether the warm-up went on until calls got no faster; None where that was not
            tried.
        samples_s: all samples, in seconds per call: [rank][iteration]. None is dropped.
        start_offsets_s: start of each rank's sample in seconds after the first rank's start of
            the same iteration: [rank][iteration].
        regions_s: by name of a region, the time spent in it in seconds per call:
            [rank][iteration].
        disturbance: by name of a counter in `benchkit.measure.disturbance`, how much it grew
            during the blocks: [rank]. Also `lowest_ghz` and `highest_ghz`, the range of
            `core_ghz()` after the blocks: [rank].
        elapsed_s: seconds spent on the blocks, with resets and barriers, on the slowest rank.
        stopped_by: what ended the samples: target_rel_ci, max_iterations or max_seconds.
        converged: whether the interval met `target_rel_ci`; None without a target.
        ranks: number of ranks that take part, the first ones; None for all.
        estimator: what the time of an iteration is, see `statistics.summary.iteration_times`.
        typical_s: seconds that one iteration takes, with reset and barrier, as known so far. It
            sets the size of the next block.
        lead: how long a GPU is kept busy before a sample, while the host queues its calls; None
            where the host times the calls.
        oom_reason: why the case was skipped for lack of memory; "" if it was not.
    """

    calls_per_sample: int = 1
    blocks: list[int] = field(default_factory=list)
    warmup_s: Rows = field(default_factory=list)
    steady: bool | None = None
    samples_s: Rows = field(default_factory=list)
    start_offsets_s: Rows = field(default_factory=list)
    regions_s: dict[str, Rows] = field(default_factory=dict)
    disturbance: dict[str, list[float]] = field(default_factory=dict)
    elapsed_s: float = 0.0
    stopped_by: str = ""
    converged: bool | None = None
    ranks: int | None = None
    estimator: str = SLOWEST_RANK
    typical_s: float = 0.0
    lead: Lead | None = field(default_factory=Lead)
    oom_reason: str = ""

    @property
    def lead_s(self) -> float | None:
        """The lead of the next sample in seconds, see `Clock.time`."""
        return self.lead.seconds if self.lead else None

    def num_samples(self) -> int:
        """Returns the number of iterations so far, without the warm-up."""
        return len(self.samples_s[0]) if self.samples_s else 0

    def times(self) -> Array:
        """Returns one time per iteration, in order, in seconds: [iteration]."""
        samples = self.samples_s[: self.ranks]
        starts = self.start_offsets_s[: self.ranks]
        return iteration_times(samples, starts, self.estimator)

    def add(self, samples: Rows, starts: Rows, regions: dict[str, Rows]) -> None:
        """Appends a block.

        Args:
            samples: seconds per call, [rank][iteration].
            starts: starts in seconds on one clock, [rank][iteration].
            regions: by name, seconds per call, [rank][iteration].
        """
        if not self.samples_s:
            self.samples_s = [[] for _ in samples]
            self.start_offsets_s = [[] for _ in samples]
            self.regions_s = {name: [[] for _ in samples] for name in regions}
        self.blocks.append(len(samples[0]))
        first_starts = [min(iteration) for iteration in zip(*starts, strict=True)]
        for rank, (durations, began) in enumerate(zip(samples, starts, strict=True)):
            self.samples_s[rank] += durations
            pairs = zip(began, first_starts, strict=True)
            self.start_offsets_s[rank] += [start - first for start, first in pairs]
            for name, spent in regions.items():
                self.regions_s[name][rank] += spent[rank]

    def learn_lead(self, queueing: Rows) -> None:
        """Sets the lead of the next samples by how long ranks queued: per call, [rank][iteration].

        It is alike on all ranks, so that they begin together.
        """
        if self.lead:
            calls = self.calls_per_sample
            self.lead.learn([calls * value for value in slowest_rank(queueing)])

    def add_disturbance(self, growth: dict[str, list[float]]) -> None:
        """Adds what each counter grew by during a block: [rank] by name of the counter."""
        for name, by_rank in growth.items():
            before = self.disturbance.get(name, [0.0] * len(by_rank))
            self.disturbance[name] = [a + b for a, b in zip(before, by_rank, strict=True)]

    def add_frequency(self, ghz: list[float]) -> None:
        """Widens the range of each rank's frequency by the one after a block, in GHz: [rank]."""
        for name, furthest in (("lowest_ghz", min), ("highest_ghz", max)):
            before = self.disturbance.get(name, ghz)
            self.disturbance[name] = list(map(furthest, before, ghz))
