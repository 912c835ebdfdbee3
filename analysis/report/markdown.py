"""Pieces of Markdown of which suites make their reports."""

from collections.abc import Iterable

import pandas as pd

from analysis.table.repetitions import describe_runs


def document(*parts: str) -> str:
    """Join titles, paragraphs and tables; "" stands for a part that is not there."""
    return "\n\n".join(filter(None, parts))


def bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def format_run_spread(rows: pd.DataFrame) -> str:
    """Say in a paragraph how much merged rows vary from run to run."""
    return " ".join(describe_runs(rows))
