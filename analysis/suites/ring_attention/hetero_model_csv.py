"""Reads and writes decoders on split sequences in the CSV of hpml_testing (Columbia, 2026).

The system has two files: one with a line per split of the sequence, one with a line for the ring
and for one GPU alone. Neither has a column for how much slower a GPU was.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from analysis.records.foreign import (
    Cells,
    Reading,
    Timing,
    number,
    ours,
    read_csv,
    seconds,
    status_of,
    whole,
)
from analysis.records.of_suite import cases_of
from analysis.records.slowdowns import Slowdown
from analysis.repetitions import alike
from analysis.suites.ring_attention.model_table import CASE, SUITE
from analysis.text import as_csv
from benchkit.suites.ring_attention import suite as names

SPLIT, TOKENS, LENGTH = "split_type", "block_lens", "prompt_tokens"
STRATEGY = "strategy"
FIRST, LATER, TOTAL, TOTAL_TIME = "ttft_ms", "avg_decode_ms", "total_ms", "total_time_ms"
OF_SPLITS = frozenset((SPLIT, TOKENS, LENGTH, FIRST, LATER))
OF_RING = frozenset((STRATEGY, LENGTH, FIRST, LATER))
"""Columns by which the files are recognised."""
LABELS = {"Ring": (names.RING, names.EVEN), "Regular": (names.SINGLE, names.WHOLE)}
"""Our implementation and strategy, by what the second file calls them."""
LABEL_OF = {case: label for label, case in LABELS.items()}


@dataclass(frozen=True, kw_only=True)
class Decoder(Timing):
    """A pass of a decoder: the time to the first token, or per further token.

    Attributes:
        slowdown: how many times slower the last rank was; None where the file does not say.
    """

    SUITE: ClassVar[str] = SUITE
    ORDER: ClassVar[tuple[str, ...]] = (
        "phase", "seq_len", "implementation", "strategy", "slowdown", "source", "file",
    )  # fmt: skip

    phase: str
    implementation: str
    strategy: str
    seq_len: int
    slowdown: str | None


def read(file: str, text: str) -> Reading | None:
    """Read a file of either kind; None where it is neither."""
    return read_csv(file, text, OF_SPLITS, rows_of) or read_csv(file, text, OF_RING, rows_of)


def rows_of(file: str, cells: Cells) -> list[Timing]:
    """Make the rows of a line; a time of 0 per token is the system's for no token."""
    ranks: int | None
    if SPLIT in cells:
        case, ranks = (names.RING, cells[SPLIT]), len(json.loads(cells[TOKENS]))
    else:
        case = LABELS[cells[STRATEGY]]
        ranks = 1 if case[0] == names.SINGLE else None
    times = {names.PREFILL: cells[FIRST]}
    if number(cells[LATER]) != 0:
        times[names.DECODE] = cells[LATER]
    return [
        Decoder(
            source="hetero",
            file=file,
            world_size=ranks,
            time_s=seconds(time, 1e-3),
            status=status_of(number(time)),
            estimator="of one prompt, on rank 0",
            conversion="as printed",
            phase=phase,
            implementation=case[0],
            strategy=case[1],
            seq_len=whole(cells[LENGTH]),
            slowdown=None,
        )
        for phase, time in times.items()
    ]


def recorded(row: Mapping[str, Any]) -> Decoder:
    """Convert a row of a record; a call of decode makes several tokens."""
    fields, phase = ours(row), str(row.get(names.PHASE))
    if phase == names.DECODE:
        for name in ("time_s", "std_s"):
            fields[name] = fields[name] and fields[name] / row["decode_tokens"]
        fields["conversion"] = "time of a call / its tokens"
    if row.get(names.IMPLEMENTATION) == names.SINGLE:
        fields["world_size"] = 1
    return Decoder(
        **fields,
        phase=phase,
        implementation=str(row.get(names.IMPLEMENTATION)),
        strategy=str(row.get(names.STRATEGY)),
        seq_len=row["seq_len"],
        slowdown=str(Slowdown.of(row["slowdown"], row["world_size"])),
    )


def export(table: pd.DataFrame) -> dict[str, str]:
    """Write both files, for each slowdown and whatever else sets points apart."""
    rows = table[(table["suite"] == SUITE) & (table["status"] == "ok")]
    texts = {}
    for suffix, group in alike(rows, *CASE, "seq_len"):
        lines = pd.DataFrame(lines_of(group))
        if lines.empty:
            continue
        splits = lines[lines[names.IMPLEMENTATION] == names.RING]
        texts[f"hetero_full_model_results{suffix}.csv"] = text_of(splits, SPLIT, TOKENS, TOTAL)
        both = lines[lines[STRATEGY].notna()]
        texts[f"ring_vs_regular{suffix}.csv"] = text_of(both, STRATEGY, TOTAL_TIME)
    return texts


def text_of(lines: pd.DataFrame, *columns: str) -> str:
    """Write lines with what they are of, their times, and the total."""
    *what, total = columns
    lines = lines.assign(**{total: lines[TOTAL]})[[*what, LENGTH, FIRST, LATER, total]]
    return as_csv(lines, "%.2f")


def lines_of(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a line per length and split: the means of both phases, 0 for one without a record."""
    found: dict[tuple[int, str, str], dict[str, Any]] = {}
    for row, case in cases_of(rows):
        length, split = int(row["seq_len"]), str(row[names.STRATEGY])
        key = (length, row[names.IMPLEMENTATION], split)
        line = found.setdefault(key, {FIRST: 0.0, LATER: 0.0, TOTAL: 0.0})
        mean_ms, decodes = row["mean_s"] * 1e3, row[names.PHASE] == names.DECODE
        line[LATER if decodes else FIRST] = mean_ms / (row["decode_tokens"] if decodes else 1)
        line[TOTAL] += mean_ms
        line[TOKENS] = case.details.get(names.TOKENS)
    for (length, implementation, split), line in sorted(found.items()):
        of_both = LABEL_OF.get((implementation, split))
        named = {SPLIT: split, STRATEGY: of_both, LENGTH: length}
        yield {names.IMPLEMENTATION: implementation, **named, **line}
