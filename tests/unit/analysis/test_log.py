"""`analysis log`: what MLflow and Weights & Biases are told; small stand-ins take the place of their libraries."""

import sys
from types import SimpleNamespace

import pytest
from analysis.__main__ import main
from analysis.commands import trackers
from analysis.commands.tracking import allowed, runs_of

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
        return [run for run in self.runs if run.tags[trackers.KEY] == key]

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
def sweep(tmp_path):
    records = [make_record(1.0, 2), make_record(10.0, 2), make_record(10.0, 4, status="error")]
    for number, record in enumerate(records):
        record["point_id"] = f"{number:012x}"
    write_all(tmp_path / "sweep", records)
    return tmp_path / "sweep"


def test_point_becomes_run_of_mlflow(sweep, mlflow, capsys):
    assert main(["log", str(sweep), "--to", "mlflow"]) == 0
    assert capsys.readouterr().out == "logged 3 runs and the report: MLflow, experiment benchkit at file:there\n"
    report, *points = sorted(mlflow, key=lambda run: "report" not in run.name)
    assert [run.status for run in points] == ["FINISHED", "FINISHED", "FAILED"]
    assert [run.params["data_size"] for run in points] == ["1.0", "10.0", "10.0"]
    assert {run.tags["mlflow.parentRunId"] for run in points} == {report.info.run_id}
    [metric] = [value for name, value in points[0].metrics.items() if name.endswith("median_s")]
    assert metric == tabulate_records([make_record(1.0, 2)])["median_s"].item()
    assert points[0].files[0].endswith("record.json")
    assert report.files == [str(sweep / "analysis")]
    assert (sweep / "analysis" / "combined.csv").exists()


def test_point_is_logged_once(sweep, mlflow, capsys):
    for said in ("logged 3 runs and the report: ", "logged 0 runs and the report; 3 were there: "):
        assert main(["log", str(sweep), "--to", "mlflow"]) == 0
        assert said in capsys.readouterr().out
    assert len(mlflow) == 4


def test_point_becomes_run_of_wandb(sweep, monkeypatch, capsys):
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
    assert capsys.readouterr().out == "logged 3 runs and the report: Weights & Biases, project nights\n"
    assert [run.code for run in opened] == [0, 0, 1, 0]
    assert len({run.given["id"] for run in opened}) == 4
    assert {(run.given["project"], run.given["group"]) for run in opened} == {("nights", "sweep")}
    assert any(name.endswith("median_s") for name in opened[0].summary)


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_missing_library_is_one_line(sweep, monkeypatch, capsys, name):
    monkeypatch.setitem(sys.modules, name, None)
    assert main(["log", str(sweep), "--to", name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"analysis log: --to {name} needs the extra: pip install 'benchkit[{name}]'")
    assert said.count("\n") == 1


def test_refusal_of_tracker_is_one_line(sweep, mlflow, monkeypatch, capsys):
    def refuse(self, *_):
        raise RuntimeError("no connection. See the guide.\nsecond line")

    monkeypatch.setattr(Client, "create_experiment", refuse)
    assert main(["log", str(sweep), "--to", "mlflow"]) == 2
    assert capsys.readouterr().err == (
        "analysis log: RuntimeError: no connection. MLFLOW_TRACKING_URI says where to log, which is file:there; "
        "allowed are a server, http://HOST:PORT, and with MLFLOW_ALLOW_FILE_STORE=true a folder, file:///PATH\n"
    )


def test_later_refusal_of_tracker_is_one_line(sweep, mlflow, monkeypatch, capsys):
    def refuse(self, *_, **__):
        raise RuntimeError("disk is full\nsecond line")

    monkeypatch.setattr(Client, "log_batch", refuse)
    assert main(["log", str(sweep), "--to", "mlflow"]) == 2
    assert capsys.readouterr().err == "analysis log: RuntimeError: disk is full\n"


def test_folder_without_records_is_refused(tmp_path, capsys):
    assert main(["log", str(tmp_path / "none"), "--to", "mlflow"]) == 2
    assert main(["log", str(tmp_path), "--to", "mlflow"]) == 1
    assert capsys.readouterr().err.count("\n") == 2


def test_names_are_those_that_trackers_allow():
    assert allowed("p95 [ms]/größe") == "p95 _ms_/gr__e"


def test_repetitions_are_runs_of_their_own():
    records = [make_record(1.0, 2), make_record(1.0, 2)]
    for number, record in enumerate(records):
        record["repetition"] = number
        record["started_at"] = f"2026-01-01T00:00:0{number}"
    table = tabulate_records(records)
    table["path"] = ["a", "b"]
    assert len({run.key for run in runs_of(table)}) == 2


def test_mistyped_subcommand_is_answered_with_nearest(capsys):
    assert main(["comapre", "a", "b"]) == 2
    assert "comapre: no such folder or file; did you mean the subcommand compare?" in capsys.readouterr().err
    assert main(["nowhere"]) == 2
    assert "did you mean" not in capsys.readouterr().err
