"""Tables of performance by compute share, for the suite and for `analysis plan`: hence no torch and no hydra here."""

import csv
import math
from collections.abc import Mapping
from pathlib import Path

LATENCIES = ("mps_pct", "latency_ms")
MATMULS = ("mps_pct", "size", "dtype", "bg_streams", "tflops")


def read(path: str, seq_len: int, dtype: str) -> dict[float, float]:
    """Compute share (percent) -> performance (any unit), of a table of latencies or of matmuls.

    Of matmuls, those without background streams count: of the dtype, where the table has it, else of the first dtype
    that it has; and of the size nearest to the sequence length. Raises ValueError that says what is wrong, and leaves
    it to the caller to say where.
    """
    try:
        with Path(path).open(newline="") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"not a table ({type(error).__name__}: {error})") from None
    columns = set(rows[0]) if rows else set()
    if columns.issuperset(LATENCIES):
        return {number(row, "mps_pct"): 1 / number(row, "latency_ms") for row in rows}
    if not columns.issuperset(MATMULS):
        raise ValueError(f"not a table of {' and '.join(LATENCIES)}, or of {', '.join(MATMULS)}")
    alone: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        size, share, rate = (number(row, name) for name in ("size", "mps_pct", "tflops"))
        if number(row, "bg_streams", allow_0=True) == 0:
            alone.setdefault(row["dtype"], []).append((size, share, rate))
    if not alone:
        raise ValueError("bg_streams is > 0 throughout: allowed are tables with rows without background streams")
    found = alone.get(dtype) or next(iter(alone.values()))
    nearest = min((size for size, *_ in found), key=lambda size: abs(size - seq_len))
    return {share: rate for size, share, rate in found if size == nearest}


def number(row: Mapping[str, str | None], column: str, allow_0: bool = False) -> float:
    """A cell; raises ValueError that says which and what is allowed."""
    try:
        value = float(row[column] or "")
    except ValueError:
        value = math.nan
    if math.isfinite(value) and (value > 0 or (allow_0 and value == 0)):
        return value
    raise ValueError(f"{column}={row[column]}: allowed are finite numbers {'>=' if allow_0 else '>'} 0")
