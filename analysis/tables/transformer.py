"""Step times of language models: the rows that its tables and plots are made of, and as raw numbers."""

from collections.abc import Iterable

import pandas as pd

from analysis.table import identity_columns, newest

SUITE = "transformer"
CASE = ("model", "context_length", "pass")
PASSES = ("forward", "forward_backward", "train_step")
ANY_PASS = "all"
"""Of a job that failed as a whole."""
PHASES = ("forward", "loss", "backward", "optimizer")
FIGURES = (
    "median_s", "ci_low_s", "ci_high_s", "rel_ci", "mean_s", "std_s", "min_s", "max_s", "num_samples",
    *(f"{phase}_s" for phase in PHASES), "backward_over_forward", "tokens_per_second", "useful_tflop_per_s",
    "mfu_full", "mfu_causal", "hfu_full", "peak_bytes", "scaling_efficiency", "comm_share",
)  # fmt: skip
LABELS = ("pass", "ranks", "part")


def write(table: pd.DataFrame) -> dict[str, str]:
    """All that says what was measured, and plain numbers: seconds, bytes, shares of 1."""
    rows = rows_of(table)
    if rows.empty:
        return {}
    first = ("model", "parameters", "context_length", "batch_size", "pass")
    told = [name for name in identity_columns(rows) if name not in ("suite", "part") and rows[name].notna().any()]
    columns = dict.fromkeys((*first, *told, *FIGURES, "peak_from", "doubt", "status", "reason"))
    return {"transformer.csv": rows[list(columns)].to_csv(index=False)}


def rows_of(table: pd.DataFrame) -> pd.DataFrame:
    """Of each point the last run, whole passes alone, small models first; all columns named here are there."""
    rows = table[table["suite"] == SUITE]
    if rows.empty:
        return rows
    rows = rows.reindex(columns=list(dict.fromkeys((*rows, *LABELS, *FIGURES, "parameters", "peak_from"))))
    words = {"pass": ANY_PASS, "part": "whole"}
    rows = rows.assign(
        **{name: pd.to_numeric(rows[name]) for name in (*FIGURES, "parameters")},
        **{name: rows[name].astype(object).where(rows[name].notna(), word) for name, word in words.items()},
        ranks=pd.to_numeric(rows["ranks"]).fillna(rows["world_size"]),
    )
    settings = identity_columns(rows)
    floats = rows[settings].select_dtypes("float")  # as whole numbers become beside rows of other suites
    rows = rows.astype({name: int for name in floats if (floats[name] % 1 == 0).all()})
    rows = last_runs(rows, settings)
    return in_order(rows.assign(parameters=rows.groupby("model")["parameters"].transform("max")))


def last_runs(rows: pd.DataFrame, settings: list[str]) -> pd.DataFrame:
    """Whole passes of each point's last job, which may have failed as a whole; and the last of what is the same."""
    jobs = [*(name for name in settings if name not in LABELS), "point_id"]
    in_time = rows.sort_values("started_at", kind="stable")
    last = in_time.groupby(jobs, dropna=False)["started_at"].transform("last")
    return newest(in_time[(in_time["started_at"] == last) & (in_time["part"] == "whole")], *settings)


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """By the model's size, context and pass."""
    layers, width, inner, vocabulary = (
        rows[f"model.{name}"] for name in ("num_layers", "d_model", "d_ff", "vocab_size")
    )
    counted = layers * width * (4 * width + 3 * inner) + 2 * vocabulary * width
    turns = {name: turn for turn, name in enumerate((*PASSES, ANY_PASS))}
    keys = rows[list(CASE)].assign(
        size=rows["parameters"].fillna(counted),  # nobody counted it
        turn=rows["pass"].map(turns),
    )
    return rows.loc[keys.sort_values(["size", "model", "context_length", "turn"], kind="stable").index]


def varying(rows: pd.DataFrame) -> list[str]:
    """Settings beyond a case's own in which rows differ: those that analysis.table.alike tells apart."""
    return [name for name in identity_columns(rows) if name not in CASE and rows[name].nunique(dropna=False) > 1]


def said(rows: pd.DataFrame, names: Iterable[str]) -> str:
    """ "dtype float32, ranks 2": settings that all of the rows share."""
    return ", ".join(f"{name} {'/'.join(map(str, rows[name].unique()))}" for name in names)
