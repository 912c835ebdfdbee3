"""What an experiment tracker is told of a sweep: a run per point, with settings and figures."""

import hashlib
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.records.metrics import METRICS
from analysis.table import identity_columns

ALWAYS = ("suite", "backend", "world_size")
"""Parameters of every run; others are there where they differ between points."""
TAGS = ("status", "reason", "run", "host", "device_name", "torch", "commit", "point_id")
NOT_ALLOWED = re.compile(r"[^\w./ -]", re.ASCII)
"""Characters that MLflow does not allow in the names of parameters and figures."""


@dataclass(frozen=True)
class RunLog:
    """What is told of one point.

    Attributes:
        key: identifies the measurement, so that it is not logged twice.
        name: such as "collective data_size=1.0".
        params: settings, as text.
        metrics: figures of its cases in the units of the table; those of several cases have names
            such as "back_to_back/median_s".
        tags: other facts, as text.
        started_at: in ISO 8601; "" if not known.
        is_ok: whether all its cases were measured.
        record: the file.
    """

    key: str
    name: str
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    started_at: str
    is_ok: bool
    record: Path


@dataclass(frozen=True)
class SweepLog:
    """What is told of all points together.

    Attributes:
        key: identifies the sweep by its folder's name and its first point.
        name: the folder's name.
    """

    key: str
    name: str

    @classmethod
    def of(cls, folder: Path, runs: Sequence[RunLog]) -> "SweepLog":
        name = folder.resolve().name
        return cls(digest(name, runs[0].key), name)


def runs_of(table: pd.DataFrame) -> list[RunLog]:
    """Make a run of each record in the combined table, in the table's order."""
    settings = [name for name in identity_columns(table) if name != "status"]
    points = table.groupby("path", sort=False)
    labels = [name for name in settings if (points[name].nunique(dropna=False) > 1).any()]
    varying = [name for name in settings if points[name].first().nunique(dropna=False) > 1]
    params = list(dict.fromkeys([*ALWAYS, *(name for name in varying if name not in labels)]))
    return [run_of(str(path), rows, params, labels) for path, rows in points]


def run_of(path: str, rows: pd.DataFrame, params: Sequence[str], labels: Sequence[str]) -> RunLog:
    """Make the run of a record.

    Args:
        path: of its file.
        rows: of its cases.
        params: columns that are parameters.
        labels: columns that tell its cases apart.
    """
    first = rows.iloc[0]
    values = texts(first, params)
    others = [f"{name}={value}" for name, value in values.items() if name not in ALWAYS]
    metrics: dict[str, float] = {}
    for _, row in rows.iterrows():
        case = " ".join(texts(row, labels).values())
        metrics |= {allowed(f"{case}/{name}".lstrip("/")): value for name, value in figures(row)}
    started_at = texts(first, ["started_at"]).get("started_at", "")
    return RunLog(
        key=digest(first["point_id"], started_at, first["run"]),
        name=" ".join([str(first["suite"]), *others]),
        params={allowed(name): value for name, value in values.items()},
        metrics=metrics,
        tags=texts(first, TAGS) | {"benchkit_suite": str(first["title"])},
        started_at=started_at,
        is_ok=bool((rows["status"] == "ok").all()),
        record=Path(path),
    )


def figures(row: "pd.Series[Any]") -> list[tuple[str, float]]:
    """Return the figures of a case that it has, in the order of the table."""
    return [(each.name, float(row[each.name])) for each in METRICS if pd.notna(row[each.name])]


def texts(row: "pd.Series[Any]", names: Sequence[Hashable]) -> dict[str, str]:
    """Return the cells of a row that it has, as text."""
    return {str(name): str(row[name]) for name in names if pd.notna(row[name])}


def allowed(name: str) -> str:
    """Replace characters that a tracker would refuse."""
    return NOT_ALLOWED.sub("_", name)


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
