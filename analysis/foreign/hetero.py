"""Read and write the CSV of hpml_testing (Columbia, 2025 and 2026).

It times matrix products, ring attention and decoders on GPUs, one of which is slower. Shares of a
device are in percent; our slowdown is 100 / share.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.foreign.timings import Cells, LinesByHeads, Timing, number, status_of
from analysis.records.results import Row
from analysis.records.slowdowns import Slowdown
from analysis.records.suite_rows import rows_with_cases
from analysis.shared.text import as_csv
from analysis.suites.matmul_lut import table as matmul_lut
from analysis.suites.ring_attention import table as ring_attention
from analysis.suites.ring_model import table as ring_model
from analysis.table.repetitions import group_by_mechanism, group_equal_except
from benchkit.api import lut
from benchkit.record.record import CaseRecord
from benchkit.suites.ring_attention import suite as names
from benchkit.suites.ring_model import suite as model_names


def slowdown_of(row: Row) -> str:
    return str(Slowdown.parse(row["slowdown"], row["world_size"]))


@dataclass(frozen=True, kw_only=True)
class MatmulTiming(Timing):
    """A product of square matrices of `size` rows, with concurrent background streams."""

    SUITE = matmul_lut.SUITE
    ORDER = ("size", "slowdown", "bg_streams", "source", "file")

    size: int
    bg_streams: int
    slowdown: str

    @classmethod
    def of_record(cls, row: Row) -> "MatmulTiming":
        return cls.from_row(row, slowdown=slowdown_of(row))


def matmuls_of(file: str, cells: Cells) -> Iterator[MatmulTiming]:
    time_s = cells.seconds("avg_ms", 1e-3)
    yield MatmulTiming(
        source="hetero",
        file=file,
        world_size=1,
        dtype=cells.word(lut.DTYPE),
        time_s=time_s,
        status=status_of(time_s),
        estimator="mean over iterations",
        conversion=f"slowdown = 100 / {lut.SHARE}",
        size=cells.whole(lut.SIZE),
        bg_streams=cells.whole(lut.STREAMS, least=0),
        slowdown=f"{100 / cells.positive(lut.SHARE):g}",
    )


def export_matmuls(table: pd.DataFrame) -> dict[str, str]:
    """Return a table per machine and mechanism, without comments, which other scripts cannot read.

    The report has the same tables, with the origin of the numbers in comments.
    """
    groups = matmul_lut.groups_of(table, lut.DTYPE, lut.STREAMS)
    columns = matmul_lut.COLUMNS
    return {
        f"matmul_mps_sweep{suffix}.csv": as_csv(matmul_lut.lut_rows(group)[columns], "%.6g")
        for suffix, group in groups
    }


SPLIT = "split_type"
TOKENS_OF_SWEEP, TIME, SHARE = "seq_len", "overall_latency_ms", "slowdown_pct"
REFERENCE = "reference_homogeneous"
"""The system's name of `names.REFERENCE`."""


@dataclass(frozen=True, kw_only=True)
class RingTiming(Timing):
    """A layer of ring attention.

    Attributes:
        seq_len: number of tokens; None for a profile, which lacks it.
        slowdown: slowdown of the last rank.
    """

    SUITE = ring_attention.SUITE
    ORDER = ("seq_len", "slowdown", "strategy", "world_size", "source", "file")

    strategy: str
    seq_len: int | None
    slowdown: str

    @classmethod
    def of_record(cls, row: Row) -> "RingTiming":
        strategy = str(row.get(names.STRATEGY))
        return cls.from_row(row, strategy=strategy, slowdown=slowdown_of(row))


def sweep_rings_of(file: str, cells: Cells) -> Iterator[RingTiming]:
    strategy = cells.word(SPLIT)
    time_s = cells.seconds(TIME, 1e-3)
    yield RingTiming(
        source="hetero",
        file=file,
        world_size=sum(str(name).endswith("_tokens") for name in cells) or None,
        time_s=time_s,
        status=status_of(time_s),
        estimator="mean over iterations of the slowest rank",
        conversion=f"slowdown = 100 / {SHARE}",
        strategy=names.REFERENCE if strategy == REFERENCE else strategy,
        seq_len=cells.whole(TOKENS_OF_SWEEP),
        slowdown=f"{100 / cells.positive(SHARE):g}",
    )


def profile_rings_of(file: str, cells: Cells) -> Iterator[RingTiming]:
    """Yield the row of a line of a profile; its strategy is the even split."""
    time_s = cells.seconds(lut.LATENCY, 1e-3)
    yield RingTiming(
        source="hetero",
        file=file,
        time_s=time_s,
        status=status_of(time_s),
        estimator="mean over iterations of the slowest rank",
        conversion=f"slowdown = 100 / {lut.SHARE}",
        strategy=names.EVEN,
        seq_len=None,
        slowdown=f"{100 / cells.positive(lut.SHARE):g}",
    )


def export_rings(table: pd.DataFrame) -> dict[str, str]:
    """Return a sweep per mechanism, and a profile of its even splits per sequence length."""
    rows = table[(table["suite"] == RingTiming.SUITE) & (table["status"] == "ok")]
    if rows.empty:
        return {}
    texts = {}
    for suffix, group in group_by_mechanism(rows, names.STRATEGY, *ring_attention.CELL):
        lines = pd.DataFrame([ring_line(row, case) for row, case in rows_with_cases(group)])
        lines = lines.sort_values([TOKENS_OF_SWEEP, SHARE, SPLIT], ascending=[True, False, True])
        texts[f"sweep_results{suffix}.csv"] = as_csv(lines, "%.6g")
        for length, even in lines[lines[SPLIT] == names.EVEN].groupby(TOKENS_OF_SWEEP):
            profile = even.groupby(SHARE, as_index=False, sort=False)[TIME].mean()
            profile = profile.rename(columns={SHARE: lut.SHARE, TIME: lut.LATENCY})
            name = f"ring_attention_profile_{length}{suffix}.csv"
            texts[name] = as_csv(profile, "%.6g")
    return texts


def ring_line(row: Row, case: CaseRecord) -> Row:
    means_ms = case.samples.calls_s.mean(axis=1) * 1e3
    strategy = row[names.STRATEGY]
    tokens = case.details.get(names.TOKENS) or [None] * len(means_ms)
    per_rank: dict[str, float | None] = {}
    for rank, (of_rank, mean_ms) in enumerate(zip(tokens, means_ms, strict=True)):
        per_rank |= {f"rank{rank}_tokens": of_rank, f"rank{rank}_latency_ms": mean_ms}
    factor = Slowdown.parse(row["slowdown"], int(row["world_size"])).factors[-1]
    return {
        SPLIT: REFERENCE if strategy == names.REFERENCE else strategy,
        TOKENS_OF_SWEEP: int(row["seq_len"]),
        TIME: means_ms.max(),
        **per_rank,
        SHARE: round(100 / factor, lut.SHARE_DIGITS),
    }


# Decoders have two files: one with a line per split of the sequence, one with a line for the ring
# and one for a single GPU. Neither has the slowdown.
BLOCKS, PROMPT, LABEL = "block_lens", "prompt_tokens", "strategy"
FIRST, LATER, TOTAL, TOTAL_TIME = "ttft_ms", "avg_decode_ms", "total_ms", "total_time_ms"
LABELS = {
    "Ring": (model_names.RING, names.EVEN),
    "Regular": (model_names.SINGLE, model_names.WHOLE),
}
"""Our implementation and strategy, by label of the second file."""
LABEL_OF = {case: label for label, case in LABELS.items()}


@dataclass(frozen=True, kw_only=True)
class DecoderTiming(Timing):
    """A pass of a decoder: the time to the first token, or per further token.

    Attributes:
        slowdown: slowdown of the last rank; None if the file lacks it.
    """

    SUITE = ring_model.SUITE
    ORDER = ("phase", "seq_len", "implementation", "strategy", "slowdown", "source", "file")

    phase: str
    implementation: str
    strategy: str
    seq_len: int
    slowdown: str | None

    @classmethod
    def of_record(cls, row: Row) -> "DecoderTiming":
        """Convert a row of a record; a decode call generates several tokens."""
        phase = str(row.get(model_names.PHASE))
        decodes = phase == model_names.DECODE
        is_single = row.get(model_names.IMPLEMENTATION) == model_names.SINGLE
        tokens = row["decode_tokens"] if decodes else 1
        mean_s, std_s = row.get("mean_s"), row.get("std_s")
        return cls.from_row(
            row,
            time_s=mean_s and mean_s / tokens,
            std_s=std_s and std_s / tokens,
            conversion="time of a call / its tokens" if decodes else "as recorded",
            world_size=1 if is_single else row["world_size"],
            phase=phase,
            implementation=str(row.get(model_names.IMPLEMENTATION)),
            strategy=str(row.get(names.STRATEGY)),
            slowdown=slowdown_of(row),
        )


def decoders_of(file: str, cells: Cells) -> Iterator[DecoderTiming]:
    """Yield the rows of a line of either file."""
    ranks: int | None
    if SPLIT in cells:
        case, ranks = (model_names.RING, cells.word(SPLIT)), len(json.loads(cells[BLOCKS]))
    else:
        case = LABELS[cells[LABEL]]
        ranks = 1 if case[0] == model_names.SINGLE else None
    columns = {model_names.PREFILL: FIRST}
    if number(cells[LATER]) != 0:  # 0 means no token
        columns[model_names.DECODE] = LATER
    for phase, column in columns.items():
        time_s = cells.seconds(column, 1e-3)
        yield DecoderTiming(
            source="hetero",
            file=file,
            world_size=ranks,
            time_s=time_s,
            status=status_of(time_s),
            estimator="of one prompt, on rank 0",
            phase=phase,
            implementation=case[0],
            strategy=case[1],
            seq_len=cells.whole(PROMPT),
            slowdown=None,
        )


def export_decoders(table: pd.DataFrame) -> dict[str, str]:
    """Return both files per slowdown and other settings in which points differ."""
    rows = table[(table["suite"] == DecoderTiming.SUITE) & (table["status"] == "ok")]
    texts = {}
    for suffix, group in group_equal_except(rows, *ring_model.CASE, "seq_len"):
        lines = pd.DataFrame(decoder_lines(group))
        if lines.empty:
            continue
        splits = lines[lines[model_names.IMPLEMENTATION] == model_names.RING]
        texts[f"hetero_full_model_results{suffix}.csv"] = decoder_csv(splits, SPLIT, BLOCKS, TOTAL)
        both = lines[lines[LABEL].notna()]
        texts[f"ring_vs_regular{suffix}.csv"] = decoder_csv(both, LABEL, TOTAL_TIME)
    return texts


def decoder_csv(lines: pd.DataFrame, *columns: str) -> str:
    *what, total = columns
    lines = lines.assign(**{total: lines[TOTAL]})[[*what, PROMPT, FIRST, LATER, total]]
    return as_csv(lines, "%.2f")


def decoder_lines(rows: pd.DataFrame) -> Iterator[Row]:
    """Yield a line per length and split: the means of both phases, 0 without a record."""
    line_by_key: dict[tuple[int, str, str], dict[str, Any]] = {}
    for row, case in rows_with_cases(rows):
        key = (int(row["seq_len"]), row[model_names.IMPLEMENTATION], str(row[names.STRATEGY]))
        line = line_by_key.setdefault(key, {FIRST: 0.0, LATER: 0.0, TOTAL: 0.0})
        mean_ms = row["mean_s"] * 1e3
        if row[model_names.PHASE] == model_names.DECODE:
            line[LATER] = mean_ms / row["decode_tokens"]
        else:
            line[FIRST] = mean_ms
        line[TOTAL] += mean_ms
        line[BLOCKS] = case.details.get(names.TOKENS)
    for (length, implementation, split), line in sorted(line_by_key.items()):
        label = LABEL_OF.get((implementation, split))
        named = {SPLIT: split, LABEL: label, PROMPT: length}
        yield {model_names.IMPLEMENTATION: implementation, **named, **line}


CSV: LinesByHeads = {
    frozenset((SPLIT, TOKENS_OF_SWEEP, TIME, SHARE)): sweep_rings_of,
    frozenset(lut.LATENCIES): profile_rings_of,
    frozenset(matmul_lut.COLUMNS): matmuls_of,
    frozenset((SPLIT, BLOCKS, PROMPT, FIRST, LATER)): decoders_of,
    frozenset((LABEL, PROMPT, FIRST, LATER)): decoders_of,
}
