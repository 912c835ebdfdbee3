"""Which rows are alternatives: several ways to do the same work, one of which is the fastest."""

from collections.abc import Iterator

import pandas as pd

from analysis.repetitions import over_runs
from analysis.table import identity_columns

WAYS = ("backend", "device", "host", "backend_env", "threads", "launched_by", "start_method")
"""Settings that change how the work is done; every other one is a size or a kind of work."""


def whole_work(measured: pd.DataFrame) -> pd.DataFrame:
    """Without parts that are timed alone and without what ran unslowed beside slowed ranks."""
    return measured[~(measured["bound"].eq(True) | measured["unslowed"].eq(True))]


def contests(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Groups of two or more alternatives among the rows of one suite; what is repeated counts once.

    Alternatives differ in WAYS only. So do the jobs of cases that are alternatives because they are
    compared with the same case on as many ranks.
    """
    rows = over_runs(whole_work(rows), *identity_columns(rows))
    settings = [name for name in identity_columns(rows) if name not in WAYS]
    compared = rows[rows["contest"].notna()]
    jobs = compared.groupby(["point_id", "started_at"], dropna=False)
    labels = {name for name in settings if (jobs[name].nunique(dropna=False) > 1).any()}
    of_jobs = [*(name for name in settings if name not in labels), "contest"]
    for part, columns in ((compared, of_jobs), (rows[rows["contest"].isna()], settings)):
        for _, group in part.groupby(columns, dropna=False, sort=False) if len(part) else []:
            if len(group) > 1:
                yield group
