"""Reports as tests look at them: their texts without the figures, which take most of the time, and each figure."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from analysis.cli import main
from analysis.page import render
from analysis.records.harvest import harvest as harvest
from analysis.table.combine import combine
from analysis.table.variants import Baseline
from matplotlib.figure import Figure

from tests.support.entries.report import ReportData, charts_of, draw, report, sentences
from tests.support.entries.report import write_all as write_tables
from tests.support.records import write_all

NARROW = {r" {2,}": " ", r"-{4,}": "---"}
"""Masks for golden files: tables of Markdown whose columns are as wide as a cell says nothing of the others."""


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
    return folder / "report"


def plots(table: pd.DataFrame, baseline: Baseline | None = None) -> dict[str, Any]:
    """The function that draws each plot, by the name of its file."""
    return {f"{name}.png": partial(draw.figure_of, chart) for name, chart in charts(table, baseline).items()}


def charts(table: pd.DataFrame, baseline: Baseline | None = None) -> dict[str, Any]:
    """What the page draws."""
    return {name: chart for found in charts_of(table, baseline).values() for name, chart in found.items()}


def runs_in(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The combined table of a folder of records, and that of their ranks."""
    found = harvest([folder])
    return combine(found.rows), found.ranks


def describe(table: pd.DataFrame) -> str:
    """What analysis.txt says below the first screen."""
    return sentences.describe(ReportData(table).findings)


def table_in(folder: Path) -> pd.DataFrame:
    return runs_in(folder)[0]


def texts_of(table: pd.DataFrame) -> dict[str, str]:
    """The texts of all suites by file name."""
    return dict(write_tables(table))


def drawn(table: pd.DataFrame, *names: str) -> tuple[list[str], dict[str, Figure]]:
    """The names of all figures, and those of these names, drawn."""
    found: list[str] = []

    def attempt(what, make):
        if not what.startswith("plot "):
            return make()
        found.append(what.removeprefix("plot "))
        return make() if found[-1] in names else None

    return found, dict(draw.draw_all(charts_of(table, None, attempt), attempt))


def harvested(folder: Path, *records: dict[str, Any]) -> pd.DataFrame:
    """The combined table of records as they lie in a folder, for what reads samples once more."""
    return table_in(write_all(folder, list(records)))


def exported(folder: Path, system: str, *records: dict[str, Any]) -> dict[str, str]:
    """The files that `python -m analysis export` writes of these records, by name."""
    place = write_all(folder / "records", list(records))
    assert main(["export", str(place), "--as", system, "--output-dir", str(folder / "out")]) == 0
    return {path.name: path.read_text() for path in (folder / "out").iterdir()}
