"""Tables of performance by compute share, for the suite and for `analysis plan`: hence no torch and no hydra here."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LATENCIES = ("mps_pct", "latency_ms")
MATMULS = ("mps_pct", "size", "dtype", "bg_streams", "tflops")
THREADS = "# threads per rank:"
"""Begins the comment that says with how many threads a table was measured."""

SHARE_DIGITS = 3
"""To which a table of ours has shares rounded."""


@dataclass(frozen=True)
class Table:
    """What was looked up, and what tells how well it fits.

    Attributes:
        performance: by compute share (percent), in any unit.
        seq_len: tokens that it was looked up for.
        sizes: rows of the square matmuls that the table has; none in a table of latencies.
        threads: per rank, as the table tells it: "1"; "" where it does not.
    """

    performance: Mapping[float, float]
    seq_len: int
    sizes: Sequence[float] = ()
    threads: str = ""

    def doubts(self, shares: Sequence[float], threads: int | None = None) -> list[str]:
        """Why it may not fit, one line each.

        Args:
            shares: of compute, in percent, that are looked up.
            threads: per rank, of those that look it up; None where they do not matter.
        """
        found = []
        low, high = min(self.performance, default=0.0), max(self.performance, default=math.inf)
        for share in sorted({share for share in shares if not low <= round(share, SHARE_DIGITS) <= high}):
            found.append(f"shares {low:g} to {high:g} % do not reach {share:g} %; that of the nearest is taken")
        if self.sizes and not min(self.sizes) <= self.seq_len <= max(self.sizes):
            held = f"sizes {min(self.sizes):g} to {max(self.sizes):g}"
            found.append(f"{held} do not reach {self.seq_len} tokens; {nearest(self.sizes, self.seq_len):g} is taken")
        if self.threads and threads is not None and self.threads != str(threads):
            found.append(f"measured with {self.threads} threads per rank, here {threads}")
        return found


def read(path: str, seq_len: int, dtype: str) -> Table:
    """Reads a table of latencies or of matmuls.

    Of matmuls, those of the dtype and without background streams count, of the size nearest to the sequence length.

    Raises:
        ValueError: says what is wrong, and leaves it to the caller to say where.
    """
    try:
        lines = Path(path).read_text().splitlines()
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"not a table ({type(error).__name__}: {error})") from None
    columns = set(rows[0]) if rows else set()
    if columns.issuperset(LATENCIES):
        return Table({number(row, "mps_pct"): 1 / number(row, "latency_ms") for row in rows}, seq_len)
    if not columns.issuperset(MATMULS):
        raise ValueError(f"not a table of {' and '.join(LATENCIES)}, or of {', '.join(MATMULS)}")
    alone: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        size, share, rate = (number(row, name) for name in ("size", "mps_pct", "tflops"))
        if number(row, "bg_streams", allow_0=True) == 0:
            alone.setdefault(row["dtype"], []).append((size, share, rate))
    if not alone:
        raise ValueError("bg_streams is > 0 throughout: allowed are tables with rows without background streams")
    if dtype not in alone:
        raise ValueError(f"dtype={dtype}: allowed are {', '.join(alone)} (those of the table)")
    sizes = [size for size, *_ in alone[dtype]]
    performance = {share: rate for size, share, rate in alone[dtype] if size == nearest(sizes, seq_len)}
    return Table(performance, seq_len, sizes, threads_of(lines))


def nearest(sizes: Sequence[float], seq_len: int) -> float:
    """The size that is nearest to the sequence length."""
    return min(sizes, key=lambda size: abs(size - seq_len))


def threads_of(lines: Sequence[str]) -> str:
    """ "1", or "1, 2" where several were mixed; "" where no comment says it."""
    told = next((line.removeprefix(THREADS) for line in lines if line.startswith(THREADS)), "").split(",")
    try:
        return ", ".join(f"{float(each):g}" for each in told)
    except ValueError:
        return ""


def number(row: Mapping[str, str | None], column: str, allow_0: bool = False) -> float:
    """A cell; raises ValueError that says which and what is allowed."""
    try:
        value = float(row[column] or "")
    except ValueError:
        value = math.nan
    if math.isfinite(value) and (value > 0 or (allow_0 and value == 0)):
        return value
    raise ValueError(f"{column}={row[column]}: allowed are finite numbers {'>=' if allow_0 else '>'} 0")
