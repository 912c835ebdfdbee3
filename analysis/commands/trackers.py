"""Trackers of experiments: MLflow, and Weights & Biases. Their libraries are optional extras."""

import importlib
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from analysis.commands.tracking import RunLog, SweepLog

KEY = "benchkit_key"
"""The tag of MLflow's runs that `RunLog.key` is in."""


ADVICE = (
    "MLFLOW_TRACKING_URI says where to log, which is {}; allowed are a server, http://HOST:PORT, "
    "and with MLFLOW_ALLOW_FILE_STORE=true a folder, file:///PATH"
)
"""What to do where MLflow refuses the place that its runs would go to."""


class TrackerError(Exception):
    """The tracker cannot be used; the message is one line."""


class Tracker(Protocol):
    """Takes runs.

    Attributes:
        place: where they go, in words.
    """

    place: str

    def __init__(self, name: str) -> None:
        """Opens an experiment or a project of this name."""
        ...

    def __enter__(self) -> "Tracker": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def log_run(self, run: RunLog, sweep: SweepLog) -> bool:
        """Takes a run; returns whether it is new."""
        ...

    def log_report(self, folder: Path, sweep: SweepLog) -> None:
        """Takes the files of the report."""
        ...


class OneLine:
    """Turns what a library raises into a TrackerError, with the first line of its message."""

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
    """Runs of an experiment of MLflow; those of a sweep are below the run with its report."""

    def __init__(self, name: str) -> None:
        mlflow = library("mlflow")
        self._entity = library("mlflow.entities")
        self.place = f"MLflow, experiment {name} at {mlflow.get_tracking_uri()}"
        try:
            with OneLine():
                self._client = mlflow.MlflowClient()
                known = self._client.get_experiment_by_name(name)
                self._experiment = (
                    known.experiment_id if known else self._client.create_experiment(name)
                )
        except TrackerError as error:
            why, _, _ = str(error).partition(". ")
            raise TrackerError(f"{why}. {ADVICE.format(mlflow.get_tracking_uri())}") from None

    def log_run(self, run: RunLog, sweep: SweepLog) -> bool:
        if self._logged(run.key):
            return False
        tags = run.tags | {KEY: run.key, "mlflow.parentRunId": self._parent(sweep)}
        started_ms = milliseconds(run.started_at)
        made = self._client.create_run(
            self._experiment, start_time=started_ms, tags=tags, run_name=run.name
        )
        now = started_ms or made.info.start_time
        metric, param = self._entity.Metric, self._entity.Param
        number = made.info.run_id
        self._client.log_batch(
            number,
            metrics=[metric(name, value, now, 0) for name, value in run.metrics.items()],
            params=[param(name, value) for name, value in run.params.items()],
        )
        self._client.log_artifact(number, str(run.record))
        self._client.set_terminated(number, "FINISHED" if run.is_ok else "FAILED")
        return True

    def log_report(self, folder: Path, sweep: SweepLog) -> None:
        parent = self._parent(sweep)
        self._client.log_artifacts(parent, str(folder), artifact_path="analysis")
        self._client.set_terminated(parent)

    def _parent(self, sweep: SweepLog) -> str:
        """Returns the run of the sweep, which it makes the first time."""
        if known := self._logged(sweep.key):
            return known
        made = self._client.create_run(
            self._experiment, tags={KEY: sweep.key}, run_name=f"{sweep.name} report"
        )
        return str(made.info.run_id)

    def _logged(self, key: str) -> str:
        """Returns the run with a key; "" if there is none."""
        found = self._client.search_runs([self._experiment], f"tags.{KEY} = '{key}'", max_results=1)
        return str(found[0].info.run_id) if found else ""


class WandB(OneLine):
    """Runs of a project of Weights & Biases; those of a sweep are one group.

    A run that was logged before is replaced: offline, only its identity is known.
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
        TrackerError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = name.partition(".")[0]
        raise TrackerError(
            f"--to {extra} needs the extra: pip install 'benchkit[{extra}]' ({error})"
        ) from None


def milliseconds(time: str) -> int | None:
    """Read a time in ISO 8601 as milliseconds since 1970; None for another text."""
    try:
        return round(datetime.fromisoformat(time).timestamp() * 1e3)
    except (ValueError, OverflowError):
        return None
