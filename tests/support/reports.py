"""Texts and figures of a report, of a table in memory; a figure is drawn only where a test looks at it."""

from pathlib import Path
from typing import Any

import pandas as pd
from analysis.__main__ import main
from analysis.records.harvest import harvest
from analysis.table import combine
from matplotlib.figure import Figure

from tests.support.entries import report
from tests.support.records import write_all

NARROW = {r" {2,}": " ", r"-{4,}": "---"}
"""Masks for golden files: tables of Markdown whose columns are as wide as a cell says nothing of the others."""


def texts_of(table: pd.DataFrame) -> dict[str, str]:
    """The texts of all suites by file name."""
    return dict(report.write_all(table))


def drawn(table: pd.DataFrame, *names: str) -> tuple[list[str], dict[str, Figure]]:
    """The names of all figures, and those of these names, drawn."""
    found: list[str] = []

    def attempt(what, make):
        if not what.startswith("plot "):
            return make()
        found.append(what.removeprefix("plot "))
        return make() if found[-1] in names else None

    return found, dict(report.draw_all(table, None, attempt))


def harvested(folder: Path, *records: dict[str, Any]) -> pd.DataFrame:
    """The combined table of records as they lie in a folder, for what reads samples once more."""
    return combine(harvest([write_all(folder, list(records))]).rows)


def exported(folder: Path, system: str, *records: dict[str, Any]) -> dict[str, str]:
    """The files that `python -m analysis export` writes of these records, by name."""
    place = write_all(folder / "records", list(records))
    assert main(["export", str(place), "--as", system, "--output-dir", str(folder / "out")]) == 0
    return {path.name: path.read_text() for path in (folder / "out").iterdir()}
