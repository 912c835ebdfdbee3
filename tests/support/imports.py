"""Runs `python -m analysis import` on samples and on records."""

from pathlib import Path

import pandas as pd
from analysis.cli import main

from tests.support.records import make_record, write_all

SAMPLES = Path(__file__).parents[1] / "unit" / "analysis" / "samples"


def imported(tmp_path, *arguments, code=0):
    """The rows of imported.csv."""
    assert main(["import", *map(str, arguments), "--output-dir", str(tmp_path / "out")]) == code
    return pd.read_csv(tmp_path / "out" / "imported.csv")


def ours(folder, collective, **changes):
    content = make_record(suite="collective", **changes)
    content["config"] |= {"suite": "collective", "collective": collective, "async_op": False, "ragged": False}
    return write_all(folder, [content])


def one(table, **where):
    """The one row of which this is true, and that there is but one."""
    for name, value in where.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]
