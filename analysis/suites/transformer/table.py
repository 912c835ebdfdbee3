"""The report of language models: results, comparisons, extremes, contexts by models."""

from collections.abc import Callable, Iterable, Iterator

import pandas as pd

from analysis.report.markdown import document, format_run_spread
from analysis.shared.text import (
    format_number,
    format_settings,
    interval_head,
    intervals,
    shorten_reason,
)
from analysis.shared.text_table import as_markdown
from analysis.suites.transformer.rows import (
    ANY_PASS,
    CASE,
    plain_numbers,
    rows_of,
    varying_settings,
)
from analysis.table.combine import identity_columns, suite_columns
from analysis.table.repetitions import group_equal_except
from benchkit.api.case import PEAK_FROM
from benchkit.record.record import HARMLESS
from benchkit.suites.transformer.suite import (
    FORWARD,
    FORWARD_BACKWARD,
    OPTIMIZER,
    OUTSIDE_BYTES,
    PARAMETERS,
    PART,
    PASS,
    PASSES,
    PEAK_BYTES,
    PHASES,
    RESERVED_BYTES,
    TRAIN_STEP,
)

Tables = Iterator[tuple[str, pd.DataFrame]]  # each with its heading, "" where it needs none
BATCH = "batch_size"
PRINTED = (
    ("median_s", "median [ms]", 1e3),
    ("mean_s", "mean [ms]", 1e3),
    ("std_s", "std [ms]", 1e3),
    *((f"{phase}_s", f"{phase} [ms]", 1e3) for phase in PHASES),
    ("tokens_per_second", "tokens/s", 1.0),
    ("useful_tflop_per_s", "TFLOP/s", 1.0),
    ("mfu_full", "MFU full [%]", 100.0),
    ("mfu_causal", "MFU causal [%]", 100.0),
    (PEAK_BYTES, "peak memory [MiB]", 2**-20),
    (RESERVED_BYTES, "reserved [MiB]", 2**-20),
    (OUTSIDE_BYTES, "outside torch [MiB]", 2**-20),
    ("backward_over_forward", "backward/forward", 1.0),
    ("scaling_efficiency", "scaling efficiency [%]", 100.0),
    ("comm_share", "communication share [%]", 100.0),
)
"""Column, header and scale."""
HEADS = {"context_length": "context", BATCH: "batch"}
EXTREMES = (
    ("fastest [ms]", "median_s", 1e3, "idxmin"),
    ("slowest [ms]", "median_s", 1e3, "idxmax"),
    ("highest tokens/s", "tokens_per_second", 1.0, "idxmax"),
    ("highest TFLOP/s", "useful_tflop_per_s", 1.0, "idxmax"),
    ("highest MFU full [%]", "mfu_full", 100.0, "idxmax"),
)
"""Header, column, scale, and the pandas method that finds the row."""
CONVENTIONS = (
    "Times are of the slowest rank, per step; the interval is that of the median, within the run "
    "or, of 6 runs and more, between them. "
    "MFU is told against: {peaks}; full counts every pair of tokens in attention, as PaLM does, "
    "causal only the pairs that are seen."
)


def tables_by_setting(rows: pd.DataFrame, shape: Callable[[pd.DataFrame], pd.DataFrame]) -> Tables:
    """Yield a table per group of rows that differ only in the case and the batch."""
    if not rows.empty:
        names = [name for name in varying_settings(rows) if name != BATCH]
        for _, part in group_equal_except(rows, *CASE, BATCH):
            yield format_settings(part, names), shape(part)


def size_of(rows: pd.DataFrame) -> list[str]:
    """List the columns of the size of a step: the context, and the batch if it varies."""
    return ["context_length", *([BATCH] if rows[BATCH].nunique() > 1 else [])]


def tables_by_model(rows: pd.DataFrame) -> Tables:
    for model, part in rows.groupby("model", sort=False):
        size = part[PARAMETERS].iloc[0]
        name = f"{model} ({format_parameters(size)} parameters)" if pd.notna(size) else str(model)
        for setting, table in tables_by_setting(part, lambda group: results(group, [])):
            head = ", ".join(filter(None, (name, setting)))
            yield head, table.drop(columns=["model", "parameters"], errors="ignore")


def results(rows: pd.DataFrame, settings: Iterable[str]) -> pd.DataFrame:
    """Return a row per case, without empty columns."""
    shown = pd.DataFrame(
        {
            "model": rows["model"],
            "parameters": rows[PARAMETERS].map(format_parameters, na_action="ignore"),
            "context": rows["context_length"],
            "batch": rows[BATCH],
            "pass": rows[PASS],
        }
    )
    shown = shown.assign(**{name: rows[name] for name in settings if name != BATCH})
    for name, head, scale in PRINTED:
        values = rows[name] * scale
        shown[head] = values.round().astype("Int64") if name == "tokens_per_second" else values
        if name == "median_s":
            shown[f"{interval_head(rows)} [ms]"] = intervals(rows)
    reasons = rows["reason"].where(rows["status"] != "ok").map(shorten_reason, na_action="ignore")
    shown = shown.assign(doubt=rows["doubt"], status=rows["status"], reason=reasons)
    return shown.dropna(axis="columns", how="all")


def format_parameters(parameters: float) -> str:
    return f"{parameters / 1e9:.4g} B" if parameters >= 1e9 else f"{parameters / 1e6:.4g} M"


def passes(part: pd.DataFrame) -> pd.DataFrame:
    """Compare forward with forward and backward; show the optimizer's share of a training step."""
    lines = []
    sizes = size_of(part)
    for (model, *size), cell in part.groupby(["model", *sizes], sort=False):
        by_pass = cell.set_index(PASS)
        times_ms = by_pass["median_s"] * 1e3
        optimizer = by_pass[f"{OPTIMIZER}_s"] * 1e3
        if not {FORWARD, FORWARD_BACKWARD} <= set(times_ms.index):
            continue
        line = {
            "model": model,
            **{HEADS[name]: value for name, value in zip(sizes, size, strict=True)},
            "forward [ms]": times_ms[FORWARD],
            "forward+backward [ms]": times_ms[FORWARD_BACKWARD],
            "ratio": times_ms[FORWARD_BACKWARD] / times_ms[FORWARD],
        }
        if TRAIN_STEP in times_ms.index:
            line["train step [ms]"] = times_ms[TRAIN_STEP]
            line["optimizer [ms]"] = optimizer[TRAIN_STEP]
            line["optimizer share [%]"] = 100 * optimizer[TRAIN_STEP] / times_ms[TRAIN_STEP]
        lines.append(line)
    return pd.DataFrame(lines).dropna(axis="columns", how="all")


def warmups(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare numbers of warm-ups: a row per point measured with several, a column per number."""
    what = [name for name in identity_columns(rows) if name != "warmup_iterations"]
    num_warmups = rows.groupby(what, dropna=False)["warmup_iterations"].transform("nunique")
    several = rows[num_warmups > 1]
    shown = (BATCH, "warmup_iterations")
    settings = [name for name in varying_settings(several) if name not in shown]
    counts = sorted(several["warmup_iterations"].unique())
    lines = []
    for _, of_point in several.groupby(what, dropna=False, sort=False):
        first = of_point.iloc[0]
        line = {
            "model": first["model"],
            "context": first["context_length"],
            "batch": first[BATCH],
        }
        line |= {name: first[name] for name in (PASS, *settings)}
        times = {row["warmup_iterations"]: time_of(row) for _, row in of_point.iterrows()}
        lines.append(line | {f"{format_warmups(count)} [ms]": times.get(count) for count in counts})
    return pd.DataFrame(lines)


def format_warmups(count: int) -> str:
    return "1 warm-up" if count == 1 else f"{count} warm-ups"


def time_of(row: pd.Series) -> str:
    """Format "2.879 [2.8, 2.95]"; only the median without an interval."""
    median = format_number(1e3 * row["median_s"])
    limits = [row[name] for name in ("ci_low_s", "ci_high_s") if pd.notna(row[name])]
    interval = ", ".join(format_number(1e3 * limit) for limit in limits)
    return f"{median} [{interval}]" if interval else median


def statistics(part: pd.DataFrame) -> pd.DataFrame:
    """Count statuses and find extremes per pass; different cells are never averaged."""
    lines = []
    for name in (*PASSES, ANY_PASS):
        cells = part[part[PASS] == name]
        if cells.empty:
            continue
        measured = cells[cells["status"] == "ok"]
        num_failed = (~cells["status"].isin(HARMLESS)).sum()
        line = {
            "pass": name,
            "measured": len(measured),
            "skipped": len(cells) - len(measured) - num_failed,
            "failed": num_failed,
        }
        for head, column, scale, which in EXTREMES:
            if measured[column].notna().any():
                extreme = measured.loc[getattr(measured[column], which)()]
                cell = f"{extreme['model']}, {extreme['context_length']}"
                if BATCH in size_of(part):
                    cell += f", batch {extreme[BATCH]}"
                line[head] = f"{format_number(extreme[column] * scale)} ({cell})"
        lines.append(line)
    return pd.DataFrame(lines)


def pivots(rows: pd.DataFrame) -> Tables:
    """Yield a table per pass and setting; jobs that failed as a whole are in all of them."""
    for name in PASSES:
        if (rows[PASS] == name).any():
            chosen = rows[rows[PASS].isin([name, ANY_PASS])]
            for setting, table in tables_by_setting(chosen, pivot):
                yield ", ".join(filter(None, (f"{name} [ms]", setting))), table


def pivot(part: pd.DataFrame) -> pd.DataFrame:
    """Pivot median times: contexts down, models across; the status if not measured."""
    last = part.sort_values(PASS, key=lambda name: name != ANY_PASS, kind="stable")
    sizes = size_of(part)
    cells = last.drop_duplicates([*sizes, "model"], keep="last")
    times = (
        (1e3 * cells["median_s"]).map(format_number).where(cells["status"] == "ok", cells["status"])
    )
    table = cells.assign(text=times).pivot(index=sizes, columns="model", values="text")
    return table[part["model"].unique()].reset_index().rename(columns=HEADS)


def write(table: pd.DataFrame) -> dict[str, str]:
    rows = rows_of(table)
    if rows.empty:
        return {}
    return {
        "transformer.csv": plain_numbers(rows),
        "benchmark_summary.md": document(*parts_of(rows)),
    }


def parts_of(rows: pd.DataFrame) -> Iterator[str]:
    measured = rows[rows["status"] == "ok"]
    peaks = " or ".join(dict.fromkeys(measured[PEAK_FROM].dropna()))
    yield "# Step time of language models"
    yield CONVENTIONS.format(peaks=peaks or "no known peak")
    yield f"All rows: {format_settings(rows, shared_settings(rows))}."
    yield format_run_spread(measured)
    sections: dict[str, Tables] = {
        "Complete Results": iter([("", results(rows, varying_settings(rows)))]),
        "Results by Model Size": tables_by_model(rows),
        "Forward-Only vs Forward+Backward": tables_by_setting(measured, passes),
        "Effect of Number of Warmup Runs": iter([("", warmups(measured))]),
        "Summary Statistics": tables_by_setting(rows, statistics),
        "Median step time by context and model": pivots(rows),
    }
    for title, tables in sections.items():
        shown = [
            document(f"### {head}" if head else "", as_markdown(table))
            for head, table in tables
            if not table.empty
        ]
        if shown:
            yield document(f"## {title}", *shown)


def shared_settings(rows: pd.DataFrame) -> list[str]:
    """List the known settings that are equal in all rows."""
    names = [name for name in ("device", "device_name", *suite_columns(rows)) if name != PART]
    return [name for name in names if rows[name].nunique() == 1 and rows[name].notna().all()]
