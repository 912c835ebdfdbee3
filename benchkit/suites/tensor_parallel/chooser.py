"""The choice of `auto`: a cost model predicts, the finalists are timed again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from benchkit.api.case import PREDICTED_S, Details, SecondsOf
from benchkit.suites.tensor_parallel.config import CHOSEN, CHUNKS, Options

Step = Callable[[], object]
Probe = tuple[float, Step]  # bytes or operations of a call, and the call
MEASURED, EXTRAPOLATED = (1, 2), (4, 8)
"""Numbers of chunks that are timed, and those that the model predicts from them."""
MOST_FINALISTS, NEAR = 5, 1.15
"""At most this many are timed again, predicted within this factor of the best."""


@dataclass(frozen=True)
class Trial:
    options: Options
    seconds: float
    limit_s: float


def overlapping() -> Iterator[tuple[str, Options]]:
    for name in ("pipeline", "p2p_pipeline"):
        for chunks in MEASURED:
            yield name, {"chunks": chunks}


@dataclass(frozen=True)
class ProductCosts:
    """A cost model of the slowest rank.

    A collective takes latency_s + byte_s x bytes (Hockney, 1994), a matmul flop_s x operations.
    """

    latency_s: float
    byte_s: float
    flop_s: float

    def limit_s(self, flops: float, num_bytes: float) -> float:
        return max(self.flop_s * flops, self.latency_s + self.byte_s * num_bytes)

    def predict(self, trials: Sequence[Trial]) -> list[tuple[float, Options]]:
        """Predict the seconds of all trials and of more chunks, with their options, fastest first.

        With c chunks, an implementation takes A + latency c + E / c, where E is exposed until the
        first chunk is complete. The times of one chunk and of two give A and E. The limit is its
        longest part by itself.
        """
        predictions = [(trial.seconds, trial.options) for trial in trials]
        by_options = {tuple(trial.options.items()): trial for trial in trials}
        for single in trials:
            two_chunks = {**single.options, "chunks": MEASURED[1]}
            double = by_options.get(tuple(two_chunks.items()))
            if single.options.get("chunks") != MEASURED[0] or double is None:
                continue
            exposed_s = 2 * (single.seconds - double.seconds + self.latency_s)
            for chunks in EXTRAPOLATED:
                hidden_s = exposed_s * (1 / 2 - 1 / chunks)
                seconds = double.seconds + (chunks - 2) * self.latency_s - hidden_s
                predictions.append(
                    (max(seconds, double.limit_s), {**single.options, "chunks": chunks})
                )
        return sorted(predictions, key=lambda prediction: prediction[0])

    def finalists(self, trials: Sequence[Trial]) -> list[Options]:
        """Return the options that may be best: few trials do not distinguish similar times."""
        predicted = self.predict(trials)
        best_s, _ = predicted[0]
        near = [options for seconds, options in predicted if seconds <= NEAR * best_s]
        return near[:MOST_FINALISTS]


def choose_for(
    seconds_of: SecondsOf,
    probes: tuple[Probe, Probe, Probe],
    kinds: Iterable[tuple[Options, float, float]],
    step_of: Callable[[Options], Step],
) -> tuple[Options, Details]:
    """Choose the fastest of some options on these ranks.

    `probes` are a small and a large collective, and a rank's product. `kinds` are the options, each
    with its operations and the bytes of its collective; `step_of` builds a step of options.
    """

    def timed_s(choices: Sequence[Options]) -> list[float]:
        return list(map(max, seconds_of(*map(step_of, choices))))

    costs = measure_costs(seconds_of, *probes)
    limits = [(options, costs.limit_s(flops, num_bytes)) for options, flops, num_bytes in kinds]
    return choose(costs, limits, timed_s)


def choose(
    costs: ProductCosts,
    kinds: Sequence[tuple[Options, float]],
    timed: Callable[[Sequence[Options]], list[float]],
) -> tuple[Options, dict[str, object]]:
    """Choose the fastest of the finalists.

    `kinds` are the options to try, each with its least seconds. `timed` returns the seconds of each
    of some options, equal on all ranks. The details are the name of the choice, such as "pipeline
    AG_after 4 chunks", its time and the costs.
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
    small: Probe,
    large: Probe,
    compute: Probe,
) -> ProductCosts:
    small_bytes, call_small = small
    large_bytes, call_large = large
    flops, call_compute = compute
    small_s, large_s, compute_s = map(max, seconds_of(call_small, call_large, call_compute))
    byte_s = 0.0
    if large_bytes > small_bytes:
        byte_s = max(0.0, large_s - small_s) / (large_bytes - small_bytes)
    latency_s = max(0.0, small_s - byte_s * small_bytes)
    return ProductCosts(latency_s, byte_s, compute_s / flops)
