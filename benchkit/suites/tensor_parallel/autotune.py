"""Which implementation and how many chunks: each kind is tried, a model tells of more, the best are tried again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

SecondsOf = Callable[..., list[list[float]]]
Options = Mapping[str, str | int]
MEASURED, EXTRAPOLATED = (1, 2), (4, 8)
"""Numbers of chunks that are timed, and those of which the model tells by them."""
MOST_FINALISTS, NEAR = 5, 1.15
"""So many at most, and none that should take longer than this times the best, are timed again."""


@dataclass(frozen=True)
class Trial:
    """One kind of implementation, timed on all ranks together; the slowest counts. limit_s: its longest part alone."""

    options: Options
    seconds: float
    limit_s: float


def overlapping() -> Iterator[tuple[str, Options]]:
    """Every way to overlap the parts, in each number of chunks to try."""
    for name in ("pipeline", "p2p_pipeline"):
        for chunks in MEASURED:
            yield name, {"chunks": chunks}


@dataclass(frozen=True)
class Costs:
    """A collective takes latency_s + byte_s x bytes (Hockney, 1994) and a matmul flop_s x operations."""

    latency_s: float
    byte_s: float
    flop_s: float

    def limit_s(self, flops: float, num_bytes: float) -> float:
        """The longer of a computation and a collective: whatever hides the other takes this long."""
        return max(self.flop_s * flops, self.latency_s + self.byte_s * num_bytes)

    def predicted(self, trials: Sequence[Trial]) -> list[tuple[float, Options]]:
        """Seconds and options of all that was tried, and of more chunks, the fastest first.

        In c chunks it takes A + latency c + E / c: E is exposed until the first chunk is through. One chunk and two
        tell A and E; the limit holds for any number.
        """
        found = [(trial.seconds, trial.options) for trial in trials]
        by_options = {tuple(trial.options.items()): trial for trial in trials}
        for one in trials:
            two = by_options.get(tuple({**one.options, "chunks": MEASURED[1]}.items()))
            if one.options.get("chunks") != MEASURED[0] or two is None:
                continue
            exposed_s = 2 * (one.seconds - two.seconds + self.latency_s)
            for chunks in EXTRAPOLATED:
                seconds = two.seconds + (chunks - 2) * self.latency_s - exposed_s * (1 / 2 - 1 / chunks)
                found.append((max(seconds, two.limit_s), {**one.options, "chunks": chunks}))
        return sorted(found, key=lambda each: each[0])

    def finalists(self, trials: Sequence[Trial]) -> list[Options]:
        """What may be the best by the model: a single trial, or two, are too few to tell what is alike apart."""
        predicted = self.predicted(trials)
        return [options for seconds, options in predicted if seconds <= NEAR * predicted[0][0]][:MOST_FINALISTS]


def choose(
    costs: Costs, kinds: Sequence[tuple[Options, float]], timed: Callable[[Sequence[Options]], list[float]]
) -> tuple[Options, dict[str, object]]:
    """The fastest of the finalists, and what the record should say of it: "pipeline AG_after 4", its time, the costs.

    kinds: what to try, each with its limit. timed: the seconds of each of some, taking turns; alike on all ranks.
    """
    tried_s = timed([options for options, _ in kinds])
    trials = [Trial(options, seconds, limit) for (options, limit), seconds in zip(kinds, tried_s, strict=True)]
    finalists = costs.finalists(trials)
    seconds, best = min(zip(timed(finalists), range(len(finalists)), strict=True))
    chosen = " ".join(str(value) for name, value in finalists[best].items() if name != "backend")
    return finalists[best], {"chosen": chosen, "predicted_s": seconds, **asdict(costs)}


def measure_costs(
    seconds_of: SecondsOf,
    small: tuple[int, Callable[[], object]],
    large: tuple[int, Callable[[], object]],
    compute: tuple[float, Callable[[], object]],
) -> Costs:
    """Times a small and a large collective (bytes, call) and a computation (operations, call) on the slowest rank."""
    small_s, large_s, compute_s = map(max, seconds_of(small[1], large[1], compute[1]))
    byte_s = max(0.0, large_s - small_s) / (large[0] - small[0]) if large[0] > small[0] else 0.0
    return Costs(max(0.0, small_s - byte_s * small[0]), byte_s, compute_s / compute[0])
