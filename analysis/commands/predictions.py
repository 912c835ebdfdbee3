"""Predicts the times of collectives on more ranks from the cost of each algorithm."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from analysis.suites.collective.algorithms import Message, Times, messages
from analysis.suites.collective.table import Series
from benchkit.record.naming import readable


@dataclass(frozen=True)
class Model:
    """What explains the measured times of one collective.

    Attributes:
        collective: its name.
        times: what was measured, by number of ranks.
        messages: how each algorithm explains it.
    """

    collective: str
    times: Times
    messages: list[Message]

    @property
    def sizes(self) -> list[float]:
        return sorted({size for points in self.times.values() for size, _ in points})

    @property
    def rivals(self) -> list[Message]:
        """The algorithms that the measured times do not tell apart."""
        return [message for message in self.messages if message.likely]


def models_of(series: list[Series]) -> list[Model]:
    """Make a model of each collective that ran on several ranks and whose algorithms are known."""
    found = []
    for name in dict.fromkeys(line.collective for line in series):
        times: dict[int, list[tuple[float, float]]] = {}
        for line in series:
            if line.collective == name and line.world_size > 1:
                times[line.world_size] = list(zip(line.sizes, line.times_s, strict=True))
        if times and (known := messages(name, times)):
            found.append(Model(name, times, known))
    return found


def rows_of(model: Model, world_sizes: list[int]) -> Iterator[dict[str, object]]:
    """Yield a row per algorithm and size, and per size one over all algorithms in question."""
    for message in model.messages:
        for size in some_of(model.sizes):
            cells = [in_ms(model, message, n, size) for n in world_sizes]
            yield row(model, message.algorithm, 100 * message.off, size, world_sizes, cells)
    if len(model.rivals) > 1:
        algorithms = f"any of the first {len(model.rivals)}"
        for size in some_of(model.sizes):
            cells = [span(model, n, size) for n in world_sizes]
            yield row(model, algorithms, None, size, world_sizes, cells)


def row(
    model: Model,
    algorithm: str,
    misses: float | None,
    size: float,
    world_sizes: list[int],
    cells: list[str],
) -> dict[str, object]:
    return {
        "collective": model.collective,
        "measured on": "/".join(map(str, model.times)),
        "algorithm": algorithm,
        "misses [%]": misses,
        "payload": readable(size),
        **{f"{n} ranks, predicted [ms]": cell for n, cell in zip(world_sizes, cells, strict=True)},
    }


def in_ms(model: Model, message: Message, world_size: int, size: float) -> str:
    """Format the prediction and its interval: "4.5 [4.1, 4.9]"."""
    value = message.seconds(model.collective, world_size, size)
    low, high = message.interval(model.collective, world_size, size) or (0.0, math.inf)
    return f"{1e3 * value:.4g} [{1e3 * low:.3g}, {1e3 * high:.3g}]"


def span(model: Model, world_size: int, size: float) -> str:
    """Format the least and the most that the algorithms in question predict: "4.5 to 27"."""
    values = [1e3 * message.seconds(model.collective, world_size, size) for message in model.rivals]
    return f"{min(values):.4g} to {max(values):.4g}"


def remarks(model: Model, world_sizes: list[int]) -> Iterator[str]:
    """Yield what the table does not show: rival algorithms, and contradictions to measurements."""
    if len(model.rivals) > 1:
        names = ", ".join(message.algorithm for message in model.rivals)
        times = "measured times"
        if len(model.times) == 1:
            times = f"times on {next(iter(model.times))} ranks alone"
        yield (
            f"{model.collective}: the {times} do not tell {names} apart; their order says nothing."
        )
    for message in model.messages:
        if (found := contradiction(model, message, world_sizes)) is not None:
            yield f"{model.collective}, {message.algorithm}: {found}"


def contradiction(model: Model, message: Message, world_sizes: list[int]) -> str | None:
    """Describe the worst prediction whose whole interval is below what fewer ranks took."""
    worst, found = 1.0, None
    points = [(n, size, time) for n, pairs in model.times.items() for size, time in pairs]
    for n, size, time in points:
        here = message.seconds(model.collective, n, size)
        for more in (count for count in world_sizes if count > n):
            there = message.seconds(model.collective, more, size)
            _, most = message.interval(model.collective, more, size) or (0.0, math.inf)
            # A shorter time is no contradiction where more ranks cost the same.
            if there > here and most < time and there / time < worst:
                worst = there / time
                found = (
                    f"{1e3 * there:.4g} ms predicted for {readable(size)} on {more} ranks, "
                    f"but {n} ranks took {1e3 * time:.4g} ms; do not rely on it."
                )
    return found


def some_of(sizes: list[float]) -> list[float]:
    """Return the smallest, the middle and the largest."""
    return sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]})
