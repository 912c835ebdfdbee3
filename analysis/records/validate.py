"""Check what types cannot: shapes of samples, and values whose names a suite chooses."""

from collections.abc import Iterator, Mapping

from benchkit.api.case import (
    CAUSAL_FLOPS,
    IDEAL_S,
    PEAK_TFLOP_PER_S,
    PREDICTED_S,
    TOKENS_PER_CALL,
    Details,
)
from benchkit.record.record import CaseRecord, Record
from benchkit.statistics.samples import slowest_rank

SHORTEST_S = 1e-12
"""A shorter time is no measurement. Within this and the longest time no ratio overflows."""
Range = tuple[float, float]
SIZES: Mapping[str, Range] = {"data_size": (0, 1e12)}
"""Keys and labels of any suite that are printed as sizes, in MiB; a list of sizes is no column."""
FIGURES: Mapping[str, Range] = {
    **dict.fromkeys((PREDICTED_S, IDEAL_S), (-1e18, 1e18)),
    **dict.fromkeys((TOKENS_PER_CALL, PEAK_TFLOP_PER_S, CAUSAL_FLOPS), (0, 1e30)),
}
"""Details of any suite that metrics are computed from."""


def validate(record: Record) -> None:
    """Check all that later code relies on beyond the types of a record.

    Raises:
        ValueError: for the first field that is wrong; the message says what is allowed.
    """
    for fault in faults_of(record):
        raise ValueError(fault)


def faults_of(record: Record) -> Iterator[str]:
    columns = {name: value for name, value in record.config.items() if not isinstance(value, list)}
    yield from wrong_numbers("config", columns, SIZES)
    if record.status == "ok" and not record.cases:
        yield "cases: allowed is at least one where the status is ok"
    for index, case in enumerate(record.cases):
        where = f"cases[{index}]"
        yield from wrong_numbers(f"{where}.labels", case.labels, SIZES)
        yield from wrong_numbers(f"{where}.details", case.details, FIGURES)
        if case.status == "ok":
            yield from (f"{where}.{fault}" for fault in wrong_samples(case))


def wrong_numbers(where: str, values: Details, ranges: Mapping[str, Range]) -> Iterator[str]:
    """Yield a fault for each value that is neither null nor a number within its range."""
    for name, (low, high) in ranges.items():
        value = values.get(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and low <= float(value) <= high):
            shown = f"{value!r:.40}"
            yield f"{where}.{name}: {shown}; allowed is a number from {low:g} to {high:g}"


def wrong_samples(case: CaseRecord) -> Iterator[str]:
    shape = shape_of(case.samples_s)
    if shape is None:
        yield "samples_s: allowed are equally many seconds of each rank"
        return
    if case.start_offsets_s is not None and shape_of(case.start_offsets_s) != shape:
        yield "start_offsets_s: allowed are null, or seconds as many as samples"
        return
    if min(case.samples.times.min(), slowest_rank(case.samples.calls_s).min()) < SHORTEST_S:
        yield f"samples_s: an iteration takes less than {SHORTEST_S:g} s"
    for name, spent in case.regions_s.items():
        if shape_of(spent) != shape:
            yield f"regions_s.{name}: allowed are seconds as many as samples"
    for name, counted in case.disturbance.items():
        if not counted:
            yield f"disturbance.{name}: allowed is a number per rank"
    if not case.blocks or sum(case.blocks) > shape[1]:
        yield f"blocks: allowed are numbers from 1 on, {shape[1]} together"


def shape_of(rows: list[list[float]]) -> tuple[int, int] | None:
    """Return the numbers of ranks and iterations; None where there is none, or they differ."""
    lengths = {len(row) for row in rows}
    length = lengths.pop() if len(lengths) == 1 else 0
    return (len(rows), length) if length else None
