"""`analysis log`: what MLflow and Weights & Biases are told; small stand-ins take the place of their libraries."""

import sys
from types import SimpleNamespace

import pytest
from analysis.cli import main
from analysis.commands import log

from tests.support.records import make_record, tabulate_records, write_all


class Client:
    """MLflow's client as far as it is used: runs with tags, and what was logged to them."""

    runs: list[SimpleNamespace]

    def get_experiment_by_name(self, name):
        return SimpleNamespace(experiment_id=name) if self.runs else None

    def create_experiment(self, name):
        return name

    def search_runs(self, experiments, wanted, max_results):
        key = wanted.split("'")[1]
        return [run for run in self.runs if run.tags[log.KEY] == key]

    def create_run(self, experiment, tags, run_name, start_time=None):
        info = SimpleNamespace(run_id=str(len(self.runs)), start_time=7)
        run = SimpleNamespace(info=info, tags=tags, name=run_name, params={}, metrics={}, files=[], status="RUNNING")
        self.runs.append(run)
        return run

    def log_batch(self, number, metrics, params):
        self.runs[int(number)].params.update(params)
        self.runs[int(number)].metrics.update((name, value) for name, value, _, _ in metrics)

    def log_artifact(self, number, path):
        self.runs[int(number)].files.append(path)

    def log_artifacts(self, number, folder, artifact_path):
        self.runs[int(number)].files.append(folder)

    def set_terminated(self, number, status="FINISHED"):
        self.runs[int(number)].status = status


@pytest.fixture
def mlflow(monkeypatch):
    """Returns the runs that MLflow was given."""
    monkeypatch.setattr(Client, "runs", [], raising=False)
    module = SimpleNamespace(MlflowClient=Client, get_tracking_uri=lambda: "file:there")
    entities = SimpleNamespace(Metric=lambda *parts: parts, Param=lambda *parts: parts)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return Client.runs


@pytest.fixture
def sweep(tmp_path, undrawn):
    """A point, one that was measured twice, and one that failed."""
    again = make_record(10.0, started_at="2026-01-01T00:00:01.000+00:00")
    records = [make_record(1.0), make_record(10.0), again, make_record(10.0, 4, status="error")]
    for record in records:
        record["config"]["größe [ms]"] = record["config"]["data_size"]
    return write_all(tmp_path / "sweep", records)


def test_point_becomes_run_of_mlflow_once(sweep, mlflow, capsys, golden):
    for _ in range(2):
        assert main(["log", str(sweep), "--to", "mlflow"]) == 0
    golden(capsys.readouterr().out)
    report, *points = sorted(mlflow, key=lambda run: "report" not in run.name)
    assert [run.status for run in points] == ["FINISHED"] * 3 + ["FAILED"]
    assert [run.params["data_size"] for run in points] == ["1.0", "10.0", "10.0", "10.0"]
    assert points[0].params["gr__e _ms_"] == "1.0"  # what MLflow allows
    assert {run.tags["mlflow.parentRunId"] for run in points} == {report.info.run_id}
    [metric] = [value for name, value in points[0].metrics.items() if name.endswith("median_s")]
    assert metric == tabulate_records([make_record(1.0)])["median_s"].item()
    assert points[0].files[0].endswith("record.json")
    assert report.files == [str(sweep / "report")] * 2
    assert (sweep / "report" / "combined.csv").exists()


def test_point_becomes_run_of_wandb(sweep, monkeypatch, capsys, golden):
    opened = []

    def init(**given):
        run = SimpleNamespace(given=given, summary={}, files=[], code=None)
        run.save = lambda path, **_: run.files.append(path)
        run.finish = lambda exit_code=0: setattr(run, "code", exit_code)
        run.log_artifact = run.files.append
        opened.append(run)
        return run

    artifact = SimpleNamespace(add_dir=lambda folder: None)
    module = SimpleNamespace(init=init, Settings=dict, Artifact=lambda *name, type: artifact)
    monkeypatch.setitem(sys.modules, "wandb", module)
    assert main(["log", str(sweep), "--to", "wandb", "--name", "nights"]) == 0
    golden(capsys.readouterr().out)
    assert [run.code for run in opened] == [0, 0, 0, 1, 0]
    assert len({run.given["id"] for run in opened}) == 5
    assert {(run.given["project"], run.given["group"]) for run in opened} == {("nights", "sweep")}
    assert any(name.endswith("median_s") for name in opened[0].summary)


def test_refusal_is_one_line(sweep, tmp_path, mlflow, monkeypatch, capsys, golden):
    def refuse(message):
        def refused(self, *_, **__):
            raise RuntimeError(message)

        return refused

    told = []
    for library in ("mlflow", "wandb"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, library, None)
            assert main(["log", str(sweep), "--to", library]) == 2
        told.append(capsys.readouterr().err)
    for method, message in (("create_experiment", "no connection. See\nthe guide"), ("log_batch", "disk is full\nall")):
        with monkeypatch.context() as refusing:
            refusing.setattr(Client, method, refuse(message))
            assert main(["log", str(sweep), "--to", "mlflow"]) == 2
        told.append(capsys.readouterr().err)
    (tmp_path / "empty").mkdir()
    assert main(["log", str(tmp_path / "none"), "--to", "mlflow"]) == 2
    assert main(["log", str(tmp_path / "empty"), "--to", "mlflow"]) == 1
    golden("".join([*told, capsys.readouterr().err]), {r"\(import of .*\)": "(PYTHON)"})
