"""Pieces of Markdown of which suites make their reports."""

from collections.abc import Iterable

import pandas as pd

from analysis.repetitions import describe_runs


def document(*parts: str) -> str:
    """Join titles, paragraphs and tables; "" stands for a part that is not there."""
    return "\n\n".join(filter(None, parts))


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def spread_of(rows: pd.DataFrame) -> str:
    """Say in a paragraph how much merged rows vary from run to run."""
    return " ".join(describe_runs(rows))


def with_interval(value: float, low: float, high: float, form: str = ".3g") -> str:
    """Format "1.11 [1.06, 1.19]"; the value alone where an end is NaN, "" where the value is."""
    if pd.isna(value):
        return ""
    ends = f" [{low:{form}}, {high:{form}}]" if pd.notna(low) and pd.notna(high) else ""
    return f"{value:{form}}{ends}"
