"""Language models for a reader: all results, passes and warm-ups compared, extremes, and contexts by models."""

from collections.abc import Callable, Iterable, Iterator

import pandas as pd

from analysis.groups import alike
from analysis.run_spread import told_of_runs
from analysis.suites.transformer.rows import ANY_PASS, CASE, PASSES, PHASES, rows_of, varying
from analysis.table import INTERVAL, as_markdown, identity_columns, intervals, own_columns
from analysis.text import digits, format_settings, shortened
from benchkit.record import HARMLESS

Tables = Iterator[tuple[str, pd.DataFrame]]
"""Each with its heading, "" where it needs none."""
PRINTED = (
    ("median_s", "median [ms]", 1e3), ("mean_s", "mean [ms]", 1e3), ("std_s", "std [ms]", 1e3),
    *((f"{phase}_s", f"{phase} [ms]", 1e3) for phase in PHASES),
    ("tokens_per_second", "tokens/s", 1.0), ("useful_tflop_per_s", "TFLOP/s", 1.0),
    ("mfu_full", "MFU full [%]", 100.0), ("mfu_causal", "MFU causal [%]", 100.0),
    ("peak_bytes", "peak memory [GB]", 1e-9), ("backward_over_forward", "backward/forward", 1.0),
    ("scaling_efficiency", "scaling efficiency [%]", 100.0), ("comm_share", "communication share [%]", 100.0),
)  # fmt: skip
"""Column, head and scale."""
EXTREMES = (
    ("fastest [ms]", "median_s", 1e3, "idxmin"), ("slowest [ms]", "median_s", 1e3, "idxmax"),
    ("highest tokens/s", "tokens_per_second", 1.0, "idxmax"),
    ("highest TFLOP/s", "useful_tflop_per_s", 1.0, "idxmax"), ("highest MFU full [%]", "mfu_full", 100.0, "idxmax"),
)  # fmt: skip
CONVENTIONS = (
    "Times are of the slowest rank, per step; the interval is that of the median, within the run or, of 6 runs and "
    "more, between them. "
    "MFU is told against: {peaks}; full counts every pair of tokens in attention, as PaLM does, causal only the pairs "
    "that are seen."
)


def write(table: pd.DataFrame) -> dict[str, str]:
    rows = rows_of(table)
    return {} if rows.empty else {"benchmark_summary.md": "\n\n".join(filter(None, parts_of(rows)))}


def parts_of(rows: pd.DataFrame) -> Iterator[str]:
    measured = rows[rows["status"] == "ok"]
    settings = ("device", "device_name", *own_columns(rows))
    shared = [name for name in settings if name != "part" and rows[name].nunique() == 1 and rows[name].notna().all()]
    yield "# Step time of language models"
    yield CONVENTIONS.format(peaks=" or ".join(dict.fromkeys(measured["peak_from"].dropna())) or "no known peak")
    yield f"All rows: {format_settings(rows, shared)}."
    yield " ".join(told_of_runs(measured))
    sections: dict[str, Tables] = {
        "Complete Results": iter([("", results(rows, varying(rows)))]),
        "Results by Model Size": by_model(rows),
        "Forward-Only vs Forward+Backward": by_setting(measured, passes),
        "Effect of Number of Warmup Runs": iter([("", warmups(measured))]),
        "Summary Statistics": by_setting(rows, statistics),
        "Median step time by context and model": pivots(rows),
    }
    for title, tables in sections.items():
        shown = [f"### {head}\n\n{text(table)}" if head else text(table) for head, table in tables if not table.empty]
        if shown:
            yield "\n\n".join((f"## {title}", *shown))


def text(table: pd.DataFrame) -> str:
    return as_markdown(table, shaped=True)


def by_setting(rows: pd.DataFrame, shape: Callable[[pd.DataFrame], pd.DataFrame]) -> Tables:
    """A table for each group of what is alike but for the case."""
    if not rows.empty:
        yield from ((format_settings(part, varying(rows)), shape(part)) for _, part in alike(rows, *CASE))


def by_model(rows: pd.DataFrame) -> Tables:
    for model, mine in rows.groupby("model", sort=False):
        size = mine["parameters"].iloc[0]
        name = f"{model} ({counted(size)} parameters)" if pd.notna(size) else str(model)
        for setting, table in by_setting(mine, lambda part: results(part, [])):
            yield ", ".join(filter(None, (name, setting))), table.drop(columns=["model", "parameters"], errors="ignore")


def results(rows: pd.DataFrame, settings: Iterable[str]) -> pd.DataFrame:
    """A row per case, less the columns that say nothing."""
    shown = pd.DataFrame({"model": rows["model"], "parameters": rows["parameters"].map(counted, na_action="ignore")})
    shown = shown.assign(context=rows["context_length"], batch=rows["batch_size"], **{"pass": rows["pass"]})
    shown = shown.assign(**{name: rows[name] for name in settings if name != "batch_size"})
    for name, head, scale in PRINTED:
        values = rows[name] * scale
        shown[head] = values.round().astype("Int64") if name == "tokens_per_second" else values
        if name == "median_s":
            shown[INTERVAL] = intervals(rows)
    reasons = rows["reason"].where(rows["status"] != "ok").map(shortened, na_action="ignore")
    shown = shown.assign(doubt=rows["doubt"], status=rows["status"], reason=reasons)
    return shown.dropna(axis="columns", how="all")


def counted(parameters: float) -> str:
    return f"{parameters / 1e9:.4g} B" if parameters >= 1e9 else f"{parameters / 1e6:.4g} M"


def passes(part: pd.DataFrame) -> pd.DataFrame:
    """What backward adds to forward, and the optimizer's part of a training step."""
    lines = []
    for (model, context), cell in part.groupby(["model", "context_length"], sort=False):
        took, optimizer = (cell.set_index("pass")[name] * 1e3 for name in ("median_s", "optimizer_s"))
        if not {"forward", "forward_backward"} <= set(took.index):
            continue
        line = {"model": model, "context": context, "forward [ms]": took["forward"]}
        line |= {"forward+backward [ms]": took["forward_backward"], "ratio": took["forward_backward"] / took["forward"]}
        if "train_step" in took.index:
            line |= {"train step [ms]": took["train_step"], "optimizer [ms]": optimizer["train_step"]}
            line["optimizer share [%]"] = 100 * optimizer["train_step"] / took["train_step"]
        lines.append(line)
    return pd.DataFrame(lines).dropna(axis="columns", how="all")


def warmups(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for what was measured after several numbers of warm-ups, a column for each number."""
    what = [name for name in identity_columns(rows) if name != "warmup_iterations"]
    several = rows[rows.groupby(what, dropna=False)["warmup_iterations"].transform("nunique") > 1]
    settings = [name for name in varying(several) if name not in ("batch_size", "warmup_iterations")]
    lines = []
    for _, same in several.groupby(what, dropna=False, sort=False):
        first = same.iloc[0]
        line = {"model": first["model"], "context": first["context_length"], "batch": first["batch_size"]}
        line |= {name: first[name] for name in ("pass", *settings)}
        times = {row["warmup_iterations"]: with_interval(row) for _, row in same.iterrows()}
        counts = sorted(several["warmup_iterations"].unique())
        lines.append(line | {f"{count} warm-ups [ms]": times.get(count) for count in counts})
    return pd.DataFrame(lines)


def with_interval(row: pd.Series) -> str:
    """ "2.879 [2.8, 2.95]"; the median alone where there is no interval."""
    bounds = [digits(1e3 * row[side]) for side in ("ci_low_s", "ci_high_s") if pd.notna(row[side])]
    return " ".join([digits(1e3 * row["median_s"]), *([f"[{', '.join(bounds)}]"] if bounds else [])])


def statistics(part: pd.DataFrame) -> pd.DataFrame:
    """Per pass how the cells went, and the extremes with the cell they belong to; nothing unlike is averaged."""
    lines = []
    for name in (*PASSES, ANY_PASS):
        cells = part[part["pass"] == name]
        measured = cells[cells["status"] == "ok"]
        failed = ~cells["status"].isin(HARMLESS)
        counts = {
            "measured": len(measured),
            "skipped": len(cells) - len(measured) - failed.sum(),
            "failed": failed.sum(),
        }
        line = {"pass": name} | counts
        for head, column, scale, which in EXTREMES:
            if measured[column].notna().any():
                found = measured.loc[getattr(measured[column], which)()]
                line[head] = f"{digits(found[column] * scale)} ({found['model']}, {found['context_length']})"
        lines += [line] if len(cells) else []
    return pd.DataFrame(lines)


def pivots(rows: pd.DataFrame) -> Tables:
    """A table per pass and setting; a job that failed as a whole stands in those of all passes."""
    for name in [name for name in PASSES if (rows["pass"] == name).any()]:
        for setting, table in by_setting(rows[rows["pass"].isin([name, ANY_PASS])], pivot):
            yield ", ".join(filter(None, (f"{name} [ms]", setting))), table


def pivot(part: pd.DataFrame) -> pd.DataFrame:
    """Contexts down, models across; what has no time says why."""
    last = part.sort_values("pass", key=lambda name: name != ANY_PASS, kind="stable")
    cells = last.drop_duplicates(["context_length", "model"], keep="last")
    times = (1e3 * cells["median_s"]).map(digits).where(cells["status"] == "ok", cells["status"])
    table = cells.assign(text=times).pivot(index="context_length", columns="model", values="text")
    return table[part["model"].unique()].reset_index(names="context")
