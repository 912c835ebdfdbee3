"""Groups what was measured of language models: what shares a figure, and what is one line there."""

from dataclasses import dataclass, replace

import pandas as pd

from analysis.repetitions import alike, with_ranges
from analysis.report.chart import told_apart
from analysis.report.style import named
from analysis.suites.transformer.rows import CASE, rows_of, varying
from analysis.text import format_settings
from benchkit.suites.transformer.suite import PASS, PASSES, RANKS

SHARED = ("device", "device_name", "dtype", "batch_size", "parallel", RANKS)
"""Settings that every figure names, even where they are the same in all."""
RANKS_AGAIN = "world_size"
"""The same as RANKS where all ranks take part."""


@dataclass(frozen=True)
class Group:
    """Measured rows that share a figure.

    Attributes:
        suffix: what they share, in the name of a file.
        setting: what they share, in words.
        rows: of one or several lines, contexts and passes. Two columns are added: `variant` has the
            settings that tell lines of one model apart, in words, `line` the name of the line.
        known: the lines of all groups, so that each has the same look in all figures.
    """

    suffix: str
    setting: str
    rows: pd.DataFrame
    known: list[str]

    @property
    def passes(self) -> list[str]:
        return [name for name in PASSES if (self.rows[PASS] == name).any()]

    @property
    def contexts(self) -> list[int]:
        return sorted(self.rows["context_length"].unique())

    @property
    def lines(self) -> list[str]:
        return list(self.rows["line"].unique())

    def having(self, column: str) -> "Group":
        """Select the rows that have a positive number in a column."""
        return replace(self, rows=self.rows[self.rows[column] > 0])


def groups_of(table: pd.DataFrame) -> list[Group]:
    """Group measured rows so that no figure has more lines than a legend holds.

    Models are lines in any case. So are the settings with few values, which a reader compares;
    figures are told apart by the others.
    """
    rows, settings = comparable(table)
    if rows.empty:
        return []
    apart = told_apart(rows, ["model"], settings)
    rows = with_lines(rows, apart)
    together = [name for name in dict.fromkeys((*SHARED, *settings)) if name not in apart]
    shown = [name for name in together if name in rows and rows[name].notna().all()]
    groups = []
    for suffix, part in alike(rows, *CASE, RANKS_AGAIN, *apart):
        measured = part[part["status"] == "ok"]
        if not measured.empty:
            setting = format_settings(measured, shown)
            groups.append(Group(suffix, setting, measured, list(rows["line"].unique())))
    return groups


def comparable(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Select the rows in which all ranks take part, and the settings in which these differ.

    What one rank did alone is for the figure of scaling only.
    """
    rows = rows_of(table)
    if rows.empty:
        return rows, []
    rows = with_ranges(rows[rows[RANKS] == rows[RANKS_AGAIN]])
    return rows, [name for name in varying(rows) if name != RANKS_AGAIN]


def with_lines(rows: pd.DataFrame, apart: list[str]) -> pd.DataFrame:
    """Add the columns `variant` and `line`, and sort the lines of a model by their settings."""
    model = rows["model"].astype(str)
    if not apart:
        return rows.assign(variant="", line=model)
    variant = rows[apart].apply(lambda row: ", ".join(map(named, apart, row)), axis="columns")
    line = model + ", " + variant if model.nunique() > 1 else variant
    places = rows.groupby(apart, dropna=False).ngroup().groupby(model, sort=False)
    order = pd.concat([part.sort_values(kind="stable") for _, part in places]).index
    return rows.assign(variant=variant, line=line).loc[order]
