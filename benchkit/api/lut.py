"""Look-up tables of performance by compute share, and data sheets of devices.

Suites and `analysis plan` read them, so this module imports neither torch nor Hydra.
"""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SHARE, LATENCY, RATE = "mps_pct", "latency_ms", "tflops"
SIZE, DTYPE, STREAMS = "size", "dtype", "bg_streams"
LATENCIES = (SHARE, LATENCY)
MATMULS = (SHARE, SIZE, DTYPE, STREAMS, RATE)  # square matrix products; RATE is in TFLOP/s
THREADS = "threads per rank"
"""Beginning of the comment with the threads that a table was measured with."""
SHARE_DIGITS = 3  # decimals of the shares in a table that benchkit wrote


@dataclass(frozen=True)
class Table:
    """Performance in any unit, by compute share in percent.

    Attributes:
        seq_len: the looked-up length in tokens.
        sizes: rows of the square matrices in the table; empty for a table of latencies.
        threads: threads per rank in the table's measurement, such as "1"; "" if unknown.
    """

    performance: Mapping[float, float]
    seq_len: int
    sizes: Sequence[float] = ()
    threads: str = ""

    def doubts(self, shares: Sequence[float], threads: int | None = None) -> list[str]:
        """Return why the table may not fit these shares (%) and threads per rank, a line each."""
        doubts = []
        low = min(self.performance, default=0.0)
        high = max(self.performance, default=math.inf)
        outside = {share for share in shares if not low <= round(share, SHARE_DIGITS) <= high}
        for share in sorted(outside):
            covered = f"shares {low:g} to {high:g} %"
            doubts.append(f"{covered} do not reach {share:g} %; that of the nearest is taken")
        if self.sizes and not min(self.sizes) <= self.seq_len <= max(self.sizes):
            covered = f"sizes {min(self.sizes):g} to {max(self.sizes):g}"
            nearest_size = nearest(self.sizes, self.seq_len)
            doubts.append(
                f"{covered} do not reach {self.seq_len} tokens; {nearest_size:g} is taken"
            )
        if self.threads and threads is not None and self.threads != str(threads):
            doubts.append(f"measured with {self.threads} threads per rank, here {threads}")
        return doubts


def read(path: str, seq_len: int, dtype: str) -> Table:
    """Read a table of latencies or of square matrix products (CSV).

    Of matrix products it reads those of the dtype and without background streams, at the size
    nearest to the sequence length. Raises ValueError without the path, which the caller adds.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    except OSError as error:
        raise ValueError(f"not readable ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"not a table ({type(error).__name__}: {error})") from None
    columns = set(rows[0]) if rows else set()
    if columns.issuperset(LATENCIES):
        performance = {number(row, SHARE): 1 / number(row, LATENCY) for row in rows}
        return Table(performance, seq_len)
    if not columns.issuperset(MATMULS):
        raise ValueError(f"not a table of {' and '.join(LATENCIES)}, or of {', '.join(MATMULS)}")
    products_by_dtype = products_without_streams(rows)
    if not products_by_dtype:
        raise ValueError(
            "bg_streams is > 0 throughout: allowed are tables with rows without background streams"
        )
    if dtype not in products_by_dtype:
        raise ValueError(
            f"dtype={dtype}: allowed are {', '.join(products_by_dtype)} (those of the table)"
        )
    sizes = [size for size, *_ in products_by_dtype[dtype]]
    nearest_size = nearest(sizes, seq_len)
    performance = {
        share: rate for size, share, rate in products_by_dtype[dtype] if size == nearest_size
    }
    return Table(performance, seq_len, sizes, threads_of(lines))


def products_without_streams(
    rows: Sequence[dict[str, str]],
) -> dict[str, list[tuple[float, float, float]]]:
    """Return (size, share in %, TFLOP/s) by dtype, without background streams."""
    products_by_dtype: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        size, share, rate = (number(row, name) for name in (SIZE, SHARE, RATE))
        if number(row, STREAMS, allow_0=True) == 0:
            products_by_dtype.setdefault(row[DTYPE], []).append((size, share, rate))
    return products_by_dtype


def nearest(sizes: Sequence[float], seq_len: int) -> float:
    return min(sizes, key=lambda size: abs(size - seq_len))


def threads_of(lines: Sequence[str]) -> str:
    start = f"# {THREADS}:"
    comment = next((line for line in lines if line.startswith(start)), "")
    try:
        return ", ".join(f"{float(count):g}" for count in comment.removeprefix(start).split(","))
    except ValueError:
        return ""


def number(row: Mapping[str, str | None], column: str, allow_0: bool = False) -> float:
    """Return a cell's number; raise ValueError with the column and what is allowed."""
    try:
        value = float(row[column] or "")
    except ValueError:
        value = math.nan
    if math.isfinite(value) and (value > 0 or (allow_0 and value == 0)):
        return value
    sign = ">=" if allow_0 else ">"
    raise ValueError(f"{column}={row[column]}: allowed are finite numbers {sign} 0")


OTHERS = ("MIG", "Laptop", "Ti", "D", "SUPER", "Max-Q")
"""Words in a device's name that make it another GPU, or a slice, unless the entry has them."""


def entry_of(table: Mapping[str, object], device_name: str) -> str:
    """Return the longest entry whose words all occur in a device's name, or ""."""
    entries = [entry for entry in table if has_words(entry, device_name)]
    best = max(entries, key=len, default="")
    for word in OTHERS:
        if has_words(word, device_name) and not has_words(word, best):
            return ""
    return best


def has_words(words: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text) is not None
