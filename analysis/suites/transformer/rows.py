"""Select the rows of language models for tables and plots, and write them as raw numbers."""

import pandas as pd

from analysis.shared.text import as_csv
from analysis.table.combine import identity_columns
from analysis.table.repetitions import aggregate_runs
from benchkit.api.case import PEAK_FROM
from benchkit.suites.transformer.suite import (
    OUTSIDE_BYTES,
    PARAMETERS,
    PART,
    PASS,
    PASSES,
    PEAK_BYTES,
    PHASES,
    RANKS,
    RESERVED_BYTES,
    WHOLE,
)

SUITE = "transformer"
CASE = ("model", "context_length", PASS)
ANY_PASS = "all"  # the pass of a job that failed as a whole
FIGURES = (
    "median_s", "ci_low_s", "ci_high_s", "rel_ci", "mean_s", "std_s", "min_s", "max_s",
    "num_samples", *(f"{phase}_s" for phase in PHASES), "backward_over_forward",
    "tokens_per_second", "useful_tflop_per_s", "mfu_full", "mfu_causal", "hfu_full", PEAK_BYTES,
    RESERVED_BYTES, OUTSIDE_BYTES, "scaling_efficiency", "comm_share",
)  # fmt: skip
LABELS = (PASS, RANKS, PART)


def plain_numbers(rows: pd.DataFrame) -> str:
    """Format the rows as CSV: seconds, bytes, shares of 1."""
    first = ("model", PARAMETERS, "context_length", "batch_size", PASS)
    settings = [name for name in identity_columns(rows) if name not in ("suite", PART)]
    with_values = [name for name in settings if rows[name].notna().any()]
    last = (PEAK_FROM, "doubt", "status", "reason")
    columns = dict.fromkeys((*first, *with_values, *FIGURES, *last))
    return as_csv(rows[list(columns)])


def rows_of(table: pd.DataFrame) -> pd.DataFrame:
    """Aggregate whole passes to one row per point over all runs, small models first."""
    rows = whole_passes(table)
    if rows.empty:
        return rows
    rows = aggregate_runs(rows, *identity_columns(rows))
    most = rows.groupby("model")[PARAMETERS].transform("max")
    return sort_by_size(rows.assign(**{PARAMETERS: most}))


def whole_passes(table: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of whole passes, of each run, in the table's order.

    Jobs that failed as a whole have the pass ANY_PASS.
    """
    rows = table[table["suite"] == SUITE]
    if rows.empty:
        return rows
    columns = dict.fromkeys((*rows, *LABELS, *FIGURES, PARAMETERS, PEAK_FROM))
    rows = rows.reindex(columns=list(columns))
    numbers = {name: pd.to_numeric(rows[name]) for name in (*FIGURES, PARAMETERS)}
    rows = rows.assign(
        **numbers,
        **{
            PASS: fill_missing(rows[PASS], ANY_PASS),
            PART: fill_missing(rows[PART], WHOLE),
            RANKS: pd.to_numeric(rows[RANKS]).fillna(rows["world_size"]),
        },
    )
    # Beside rows of other suites, whole numbers have become floats.
    floats = rows[identity_columns(rows)].select_dtypes("float")
    rows = rows.astype({name: int for name in floats if (floats[name] % 1 == 0).all()})
    return rows[rows[PART] == WHOLE]


def fill_missing(column: pd.Series, value: str) -> pd.Series:
    return column.astype(object).where(column.notna(), value)


def sort_by_size(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort by the number of parameters, computed from the dimensions if not counted."""
    layers = rows["model.num_layers"]
    width = rows["model.d_model"]
    inner = rows["model.d_ff"]
    vocabulary = rows["model.vocab_size"]
    computed = layers * width * (4 * width + 3 * inner) + 2 * vocabulary * width
    positions = {name: position for position, name in enumerate((*PASSES, ANY_PASS))}
    keys = rows[list(CASE)].assign(
        size=rows[PARAMETERS].fillna(computed),
        turn=rows[PASS].map(positions),
    )
    order = ["size", "model", "context_length", "turn"]
    return rows.loc[keys.sort_values(order, kind="stable").index]


def varying_settings(rows: pd.DataFrame) -> list[str]:
    """List the settings in which rows differ, except those of the case."""
    settings = [name for name in identity_columns(rows) if name not in CASE]
    return [name for name in settings if rows[name].nunique(dropna=False) > 1]
