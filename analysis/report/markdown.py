"""Markdown building blocks of the suites' reports."""

from collections.abc import Iterable

import pandas as pd

from analysis.table.repetitions import describe_runs


def document(*parts: str) -> str:
    """Join titles, paragraphs and tables; skip empty parts."""
    return "\n\n".join(filter(None, parts))


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def format_run_spread(rows: pd.DataFrame) -> str:
    """Describe in a paragraph how much merged rows vary between runs."""
    return " ".join(describe_runs(rows))
