"""Step times of language models: the rows that its tables and plots are made of, and as raw numbers."""

import pandas as pd

from analysis.repetitions import over_runs
from analysis.table import identity_columns

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
    """Each point over all runs, whole passes alone, small models first; all columns named here are there."""
    rows = whole_passes(table)
    if rows.empty:
        return rows
    rows = over_runs(rows, *identity_columns(rows))
    return in_order(rows.assign(parameters=rows.groupby("model")["parameters"].transform("max")))


def whole_passes(table: pd.DataFrame) -> pd.DataFrame:
    """As `rows_of`, each run by itself and in the table's order; jobs that failed as a whole are of ANY_PASS."""
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
    floats = rows[identity_columns(rows)].select_dtypes("float")  # as whole numbers become beside rows of other suites
    rows = rows.astype({name: int for name in floats if (floats[name] % 1 == 0).all()})
    return rows[rows["part"] == "whole"]


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
    """Settings beyond a case's own in which rows differ: those that analysis.groups.alike tells apart."""
    return [name for name in identity_columns(rows) if name not in CASE and rows[name].nunique(dropna=False) > 1]
