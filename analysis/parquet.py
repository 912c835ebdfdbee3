"""Writes the combined table as Parquet, in which columns have types."""

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from analysis.output import write

FILE_NAME = "combined.parquet"


def missing_library() -> str:
    """Return why no Parquet can be written; "" where pyarrow is installed."""
    return (
        "" if find_spec("pyarrow") else "--parquet: needs pyarrow; pip install 'benchkit[parquet]'"
    )


def write_parquet(table: pd.DataFrame, folder: Path) -> Path:
    """Write a table with types, such as that of analysis.load, and return the file."""
    return write(folder, FILE_NAME, table.to_parquet(engine="pyarrow", index=False))
