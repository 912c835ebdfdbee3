"""Which implementation, and how many chunks: each kind is tried in one and in two, a model tells of more."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

SecondsOf = Callable[..., list[list[float]]]
Options = dict[str, str | int]
CHUNKS = (2, 4, 8)
TRIED = (1, 2)
"""Numbers of chunks that are timed; of more than the last of them, the model tells."""


@dataclass(frozen=True)
class Trial:
    """One kind of implementation, timed on all ranks together; the slowest counts.

    flops, num_bytes: what each rank multiplies, and the larger buffer of what it communicates.
    """

    options: Options
    seconds: float
    flops: float
    num_bytes: float


def overlapping() -> Iterator[tuple[str, Options]]:
    """Every way to overlap the parts, in each number of chunks to try."""
    for name in ("pipeline", "p2p_pipeline"):
        for chunks in TRIED:
            yield name, {"chunks": chunks}


@dataclass(frozen=True)
class Costs:
    """A collective takes latency_s + byte_s x bytes (Hockney, 1994) and a matmul flop_s x operations."""

    latency_s: float
    byte_s: float
    flop_s: float

    def predicted(self, trial: Trial) -> Iterator[tuple[float, Options]]:
        """A kind's time by its chunks: more hide more of what can be hidden, and each has a latency of its own.

        What is hidden, of what could be, is told by the trial: (T_comp + T_comm - T) over the least of the two.
        """
        tried = trial.options.get("chunks")
        if tried != TRIED[-1]:
            yield trial.seconds, trial.options
            return
        compute_s, communicate_s = self.flop_s * trial.flops, self.latency_s + self.byte_s * trial.num_bytes
        shorter_s = min(compute_s, communicate_s)
        saved_s = compute_s + communicate_s + (TRIED[-1] - 1) * self.latency_s - trial.seconds
        hidden = min(1.0, max(0.0, saved_s / ((1 - 1 / TRIED[-1]) * shorter_s)))
        for chunks in CHUNKS:
            more_hidden_s = hidden * (1 / TRIED[-1] - 1 / chunks) * shorter_s
            later_s = (chunks - TRIED[-1]) * self.latency_s
            yield trial.seconds + later_s - more_hidden_s, {**trial.options, "chunks": chunks}

    def best(self, trials: Sequence[Trial]) -> tuple[float, Options]:
        """Predicted time and options of what should be fastest; of those alike the first."""
        return min((each for trial in trials for each in self.predicted(trial)), key=lambda each: each[0])

    def decide(self, trials: Sequence[Trial]) -> tuple[Options, dict[str, object]]:
        """The best, and what the record should say of it: "pipeline AG_after 4", its time, and these costs."""
        predicted_s, options = self.best(trials)
        chosen = " ".join(str(value) for name, value in options.items() if name != "backend")
        return options, {"chosen": chosen, "predicted_s": predicted_s, **asdict(self)}


def measure_costs(
    seconds_of: SecondsOf,
    small: tuple[int, Callable[[], object]],
    large: tuple[int, Callable[[], object]],
    compute: tuple[float, Callable[[], object]],
) -> Costs:
    """Times a small and a large collective (bytes, call) and a computation (operations, call) on the slowest rank."""
    small_s, large_s, compute_s = map(max, seconds_of(small[1], large[1], compute[1]))
    byte_s = max(0.0, large_s - small_s) / max(1, large[0] - small[0])
    return Costs(max(0.0, small_s - byte_s * small[0]), byte_s, compute_s / compute[0])
