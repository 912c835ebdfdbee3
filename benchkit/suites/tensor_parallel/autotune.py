"""Chooses the implementation and the number of chunks.

Each kind is timed, a cost model predicts more chunks, and the best are timed again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from benchkit.api.details import PREDICTED_S
from benchkit.suites.tensor_parallel.names import CHOSEN, CHUNKS

SecondsOf = Callable[..., list[list[float]]]
Options = Mapping[str, str | int]
MEASURED, EXTRAPOLATED = (1, 2), (4, 8)
"""Numbers of chunks that are timed, and those that the model predicts from them."""
MOST_FINALISTS, NEAR = 5, 1.15
"""At most this many are timed again, of those predicted within this factor of the best."""


@dataclass(frozen=True)
class Trial:
    """One kind of implementation, timed on all ranks together.

    Attributes:
        options: what was timed.
        seconds: time of the slowest rank.
        limit_s: time of its longest part alone.
    """

    options: Options
    seconds: float
    limit_s: float


def overlapping() -> Iterator[tuple[str, Options]]:
    """Yields every implementation that overlaps its parts, with each number of chunks to time."""
    for name in ("pipeline", "p2p_pipeline"):
        for chunks in MEASURED:
            yield name, {"chunks": chunks}


@dataclass(frozen=True)
class Costs:
    """A cost model of collectives and matmuls.

    A collective takes latency_s + byte_s x bytes (Hockney, 1994), and a matmul takes
    flop_s x operations.
    """

    latency_s: float
    byte_s: float
    flop_s: float

    def limit_s(self, flops: float, num_bytes: float) -> float:
        """Returns the longer time of a computation and a collective, the limit of any overlap."""
        return max(self.flop_s * flops, self.latency_s + self.byte_s * num_bytes)

    def predicted(self, trials: Sequence[Trial]) -> list[tuple[float, Options]]:
        """Returns the seconds and options of all trials and of more chunks, the fastest first.

        With c chunks, an implementation takes A + latency c + E / c, where E is exposed until the
        first chunk is complete. The times of one chunk and of two give A and E. The limit holds
        for any number of chunks.
        """
        found = [(trial.seconds, trial.options) for trial in trials]
        by_options = {tuple(trial.options.items()): trial for trial in trials}
        for one in trials:
            two_chunks = {**one.options, "chunks": MEASURED[1]}
            two = by_options.get(tuple(two_chunks.items()))
            if one.options.get("chunks") != MEASURED[0] or two is None:
                continue
            exposed_s = 2 * (one.seconds - two.seconds + self.latency_s)
            for chunks in EXTRAPOLATED:
                hidden_s = exposed_s * (1 / 2 - 1 / chunks)
                seconds = two.seconds + (chunks - 2) * self.latency_s - hidden_s
                found.append((max(seconds, two.limit_s), {**one.options, "chunks": chunks}))
        return sorted(found, key=lambda prediction: prediction[0])

    def finalists(self, trials: Sequence[Trial]) -> list[Options]:
        """Returns the options that may be the best by the model.

        One or two trials are too few to distinguish options with similar times.
        """
        predicted = self.predicted(trials)
        best_s, _ = predicted[0]
        near = [options for seconds, options in predicted if seconds <= NEAR * best_s]
        return near[:MOST_FINALISTS]


def choose(
    costs: Costs,
    kinds: Sequence[tuple[Options, float]],
    timed: Callable[[Sequence[Options]], list[float]],
) -> tuple[Options, dict[str, object]]:
    """Chooses the fastest of the finalists.

    Args:
        costs: the cost model.
        kinds: options to try, each with its limit in seconds.
        timed: returns the seconds of each of some options, which take turns; equal on all ranks.

    Returns:
        The options chosen, and the details for the record: their name, such as
        "pipeline AG_after 4 chunks", their time and the costs.
    """
    measured_s = timed([options for options, _ in kinds])
    trials = []
    for (options, limit_s), seconds in zip(kinds, measured_s, strict=True):
        trials.append(Trial(options, seconds, limit_s))
    finalists = costs.finalists(trials)
    seconds, best = min(zip(timed(finalists), range(len(finalists)), strict=True))
    chosen = finalists[best]
    shown = {key: value for key, value in chosen.items() if key != "backend"}
    words = [f"{value} {CHUNKS}" if key == CHUNKS else str(value) for key, value in shown.items()]
    return chosen, {CHOSEN: " ".join(words), PREDICTED_S: seconds, **asdict(costs)}


def measure_costs(
    seconds_of: SecondsOf,
    small: tuple[int, Callable[[], object]],
    large: tuple[int, Callable[[], object]],
    compute: tuple[float, Callable[[], object]],
) -> Costs:
    """Measures the cost model on the slowest rank.

    Args:
        seconds_of: times calls on each rank, as `Rank.seconds_of` does.
        small: bytes and call of a small collective.
        large: bytes and call of a large collective.
        compute: operations and call of a computation.
    """
    small_bytes, call_small = small
    large_bytes, call_large = large
    flops, call_compute = compute
    small_s, large_s, compute_s = map(max, seconds_of(call_small, call_large, call_compute))
    byte_s = 0.0
    if large_bytes > small_bytes:
        byte_s = max(0.0, large_s - small_s) / (large_bytes - small_bytes)
    latency_s = max(0.0, small_s - byte_s * small_bytes)
    return Costs(latency_s, byte_s, compute_s / flops)
