"""`python -m analysis log DIR --to mlflow`: log the points of a sweep to an experiment tracker."""

import argparse
import hashlib
import importlib
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import pandas as pd

from analysis.records.columns import METRICS
from analysis.records.derive import usable_processes
from analysis.records.harvest import Harvest, harvest
from analysis.records.paths import require_there
from analysis.report.parts import ReportData
from analysis.report.report import write_report
from analysis.shared.output import EARLIER, FOLDER
from analysis.shared.text import command, complain
from analysis.table.combine import combine, identity_columns
from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.naming import escape_unprintable

ALWAYS = ("suite", "backend", "world_size")
"""Parameters of every run; others are only logged if they vary between points."""
TAGS = ("status", "reason", "run", "host", "device_name", "torch", "commit", "point_id")
NOT_ALLOWED = re.compile(r"[^\w./ -]", re.ASCII)
"""Characters that MLflow forbids in the names of parameters and metrics."""


@dataclass(frozen=True)
class RunLog:
    """The log entry of one point.

    Attributes:
        key: identifies the measurement, so that it is not logged twice.
        name: name, such as "collective data_size=1.0".
        params: settings, as text.
        metrics: metrics in the table's units; with several cases "back_to_back/median_s".
        started_at: time in ISO 8601; "" if unknown.
        is_ok: whether all cases were measured.
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
    """The log entry of a sweep; its key is derived from the folder and the first point."""

    key: str
    name: str

    @classmethod
    def of(cls, folder: Path, runs: Sequence[RunLog]) -> "SweepLog":
        name = folder.resolve().name
        return cls(digest(name, runs[0].key), name)


def runs_of(table: pd.DataFrame) -> list[RunLog]:
    """Return a run per record in the combined table, in the table's order."""
    settings = [name for name in identity_columns(table) if name != "status"]
    points = table.groupby("path", sort=False)
    labels = [name for name in settings if (points[name].nunique(dropna=False) > 1).any()]
    varying = [name for name in settings if points[name].first().nunique(dropna=False) > 1]
    params = list(dict.fromkeys([*ALWAYS, *(name for name in varying if name not in labels)]))
    return [run_of(str(path), rows, params, labels) for path, rows in points]


def run_of(path: str, rows: pd.DataFrame, params: Sequence[str], labels: Sequence[str]) -> RunLog:
    """Return the run of a record; `labels` are the columns that distinguish its cases."""
    first = rows.iloc[0]
    values = texts(first, params)
    other_values = [f"{name}={value}" for name, value in values.items() if name not in ALWAYS]
    metrics: dict[str, float] = {}
    for _, row in rows.iterrows():
        case = " ".join(texts(row, labels).values())
        metrics |= {
            replace_forbidden(f"{case}/{name}".lstrip("/")): value
            for name, value in metrics_of(row)
        }
    started_at = texts(first, ["started_at"]).get("started_at", "")
    return RunLog(
        key=digest(first["point_id"], started_at, first["run"]),
        name=" ".join([str(first["suite"]), *other_values]),
        params={replace_forbidden(name): value for name, value in values.items()},
        metrics=metrics,
        tags=texts(first, TAGS) | {"benchkit_suite": str(first["title"])},
        started_at=started_at,
        is_ok=bool((rows["status"] == "ok").all()),
        record=Path(path),
    )


def metrics_of(row: "pd.Series[Any]") -> list[tuple[str, float]]:
    return [
        (metric.name, float(row[metric.name])) for metric in METRICS if pd.notna(row[metric.name])
    ]


def texts(row: "pd.Series[Any]", names: Sequence[Hashable]) -> dict[str, str]:
    return {str(name): str(row[name]) for name in names if pd.notna(row[name])}


def replace_forbidden(name: str) -> str:
    return NOT_ALLOWED.sub("_", name)


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


KEY = "benchkit_key"
"""Tag of MLflow runs with `RunLog.key`."""


ADVICE = (
    "MLFLOW_TRACKING_URI says where to log, which is {}; allowed are a server, http://HOST:PORT, "
    "and with MLFLOW_ALLOW_FILE_STORE=true a folder, file:///PATH"
)
"""Advice if MLflow refuses the tracking URI."""


class TrackerError(ConfigError):
    """The tracker is not usable; the message is one line."""


class Tracker(Protocol):
    """Destination of runs; `place` describes it in words."""

    place: str

    def __init__(self, name: str) -> None: ...

    def __enter__(self) -> "Tracker": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def log_run(self, run: RunLog, sweep: SweepLog) -> bool: ...

    def log_report(self, folder: Path, sweep: SweepLog) -> None: ...


class OneLine:
    """Convert exceptions of a library to TrackerError, with the first line of the message."""

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, TrackerError | OSError):
            first = next(iter(str(error).strip().splitlines()), "")
            raise TrackerError(f"{type(error).__name__}: {first}") from error


class MLflow(OneLine):
    """Runs of an MLflow experiment; those of a sweep are children of the run with its report."""

    def __init__(self, name: str) -> None:
        mlflow = library("mlflow")
        self._entity = library("mlflow.entities")
        self.place = f"MLflow, experiment {name} at {mlflow.get_tracking_uri()}"
        try:
            with OneLine():
                self._client = mlflow.MlflowClient()
                experiment = self._client.get_experiment_by_name(name)
                self._experiment = (
                    experiment.experiment_id if experiment else self._client.create_experiment(name)
                )
        except TrackerError as error:
            reason, _, _ = str(error).partition(". ")
            raise TrackerError(f"{reason}. {ADVICE.format(mlflow.get_tracking_uri())}") from None

    def log_run(self, run: RunLog, sweep: SweepLog) -> bool:
        if self._logged(run.key):
            return False
        tags = run.tags | {KEY: run.key, "mlflow.parentRunId": self._parent(sweep)}
        started_ms = milliseconds(run.started_at)
        created = self._client.create_run(
            self._experiment, start_time=started_ms, tags=tags, run_name=run.name
        )
        now = started_ms or created.info.start_time
        metric, param = self._entity.Metric, self._entity.Param
        run_id = created.info.run_id
        self._client.log_batch(
            run_id,
            metrics=[metric(name, value, now, 0) for name, value in run.metrics.items()],
            params=[param(name, value) for name, value in run.params.items()],
        )
        self._client.log_artifact(run_id, str(run.record))
        self._client.set_terminated(run_id, "FINISHED" if run.is_ok else "FAILED")
        return True

    def log_report(self, folder: Path, sweep: SweepLog) -> None:
        parent = self._parent(sweep)
        self._client.log_artifacts(parent, str(folder), artifact_path="analysis")
        self._client.set_terminated(parent)

    def _parent(self, sweep: SweepLog) -> str:
        """Return the run of the sweep; create it the first time."""
        if logged := self._logged(sweep.key):
            return logged
        created = self._client.create_run(
            self._experiment, tags={KEY: sweep.key}, run_name=f"{sweep.name} report"
        )
        return str(created.info.run_id)

    def _logged(self, key: str) -> str:
        """Return the run with a key; "" without one."""
        matches = self._client.search_runs(
            [self._experiment], f"tags.{KEY} = '{key}'", max_results=1
        )
        return str(matches[0].info.run_id) if matches else ""


class WandB(OneLine):
    """Runs of a Weights & Biases project; those of a sweep are one group.

    A run that was logged before is replaced: offline, only its id is known.
    """

    def __init__(self, name: str) -> None:
        self._wandb = library("wandb")
        self._project = name
        self.place = f"Weights & Biases, project {name}"

    def log_run(self, run: RunLog, sweep: SweepLog) -> bool:
        opened = self._open(run.key, run.name, sweep, run.params | run.tags, "point")
        opened.summary.update(run.metrics)
        opened.save(str(run.record), base_path=str(run.record.parent), policy="now")
        opened.finish(exit_code=0 if run.is_ok else 1)
        return True

    def log_report(self, folder: Path, sweep: SweepLog) -> None:
        opened = self._open(sweep.key, f"{sweep.name} report", sweep, {}, "report")
        artifact = self._wandb.Artifact(f"report-{sweep.key}", type="report")
        artifact.add_dir(str(folder))
        opened.log_artifact(artifact)
        opened.finish()

    def _open(self, key: str, name: str, sweep: SweepLog, config: dict[str, str], kind: str) -> Any:
        quietly = self._wandb.Settings(silent=True, console="off")
        return self._wandb.init(
            project=self._project, id=key, name=name, group=sweep.name, job_type=kind,
            config=config, resume="allow", settings=quietly,
        )  # fmt: skip


TRACKERS: dict[str, type[Tracker]] = {"mlflow": MLflow, "wandb": WandB}


def library(name: str) -> Any:
    """Import an optional library.

    Raises:
        TrackerError: it is not installed; the message has the command to install it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = name.partition(".")[0]
        raise TrackerError(
            f"--to {extra} needs the extra: pip install 'benchkit[{extra}]' ({error})"
        ) from None


def milliseconds(time: str) -> int | None:
    """Parse a time in ISO 8601 as milliseconds since 1970; None for another text."""
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1e3)
    except (ValueError, OverflowError):
        return None


warn = partial(complain, "analysis log")


@command("analysis log")
def main(arguments: list[str]) -> int:
    """Log a run per point, and a run with the report.

    Returns:
        0; 1 without a record; 2 for invalid arguments, a missing library, or a refusing tracker.
    """
    options = parser().parse_args(arguments)
    folder: Path = options.folder
    require_there([folder])
    if not folder.is_dir():
        raise ConfigError(f"{folder}: allowed is a folder")
    loaded = harvest([folder], usable_processes())
    for line in loaded.remarks():
        warn(line)
    if not loaded.rows:
        warn(f"no readable record.json at or below {escape_unprintable(str(folder))}")
        return 1
    with TRACKERS[options.to](options.name) as tracker:
        print(log(folder, loaded, tracker))
    return 0


def log(folder: Path, loaded: Harvest, tracker: Tracker) -> str:
    """Log the points of a sweep that the tracker lacks; return a summary line.

    The report belongs to a separate run: copies in each run would be many files.
    """
    table = combine(loaded.rows)
    is_earlier = (folder / EARLIER / "analysis.txt").is_file() and not (folder / FOLDER).exists()
    name = EARLIER if is_earlier else FOLDER
    has_report = (folder / name).is_dir()
    report = files.make_plain_folder(folder / name)
    if not has_report:
        list(write_report(ReportData(table, None, loaded.ranks), report))
    for path in report.rglob("*"):
        if not path.is_dir() or path.is_symlink():  # The tracker would follow a link.
            files.require_regular(path)
    runs = runs_of(table)
    sweep = SweepLog.of(folder, runs)
    logged = [run for run in runs if tracker.log_run(run, sweep)]
    tracker.log_report(report, sweep)
    already_logged = f"; {len(runs) - len(logged)} were there" if len(logged) < len(runs) else ""
    return f"logged {len(logged)} runs and the report{already_logged}: {tracker.place}"


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="benchkit-analysis log",
        description="Hands one run per point to MLflow or Weights & Biases: its settings, the "
        "figures of its cases and its record; and one run with the report. Where to is for the "
        "library's own variables to say, such as MLFLOW_TRACKING_URI and WANDB_MODE.",
    )
    result.add_argument("folder", metavar="DIR", type=Path, help="folder of records")
    result.add_argument("--to", choices=TRACKERS, required=True, help="the tracker")
    result.add_argument(
        "--name",
        default="benchkit",
        help="of MLflow's experiment, or of the project (benchkit)",
    )
    return result
