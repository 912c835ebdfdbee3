"""Reports as tests look at them: their texts without the figures, which take most of the time, and each figure."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from analysis.__main__ import main
from analysis.baseline import Baseline
from analysis.page import render
from analysis.records.harvest import harvest as harvest
from analysis.table import combine

from tests.support.entries.report import PAGE_ROW, modules_with, report


def leave_out_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "draw_all", lambda *given: [])


def leave_out_drawing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundling it takes seconds; only a browser needs it."""
    monkeypatch.setattr(render, "drawing_library", lambda: "window.vegaEmbed = null;")


def names_in(folder: Path) -> set[str]:
    """Of the files of a report."""
    return {path.name for path in folder.iterdir()}


def written(folder: Path, *arguments: str) -> Path:
    """The folder of the report of a folder of records."""
    assert main([str(folder), *arguments]) == 0
    return folder / "analysis"


def plots(table: pd.DataFrame, baseline: Baseline | None = None) -> dict[str, Any]:
    """The function that draws each plot, by the name of its file."""
    return {name: draw for _, module in modules_with("draw") for name, draw in module.draw(table, baseline).items()}


def charts(table: pd.DataFrame, baseline: Baseline | None = None) -> dict[str, Any]:
    """What the page draws."""
    return {name: chart for _, module in modules_with("show") for name, chart in module.show(table, baseline).items()}


def runs_in(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The combined table of a folder of records, and that of their ranks."""
    found = harvest([folder])
    return combine(found.rows), found.ranks


def table_in(folder: Path) -> pd.DataFrame:
    return runs_in(folder)[0]


def with_page_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The table with an id for each row, as the page has it."""
    return table.assign(**{PAGE_ROW: [f"r{number}" for number in range(len(table))]})
