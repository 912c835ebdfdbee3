"""`benchkit.run` without its process: what it asks for, and what it makes of each end."""

import re
from pathlib import Path

import benchkit
import pytest
from analysis.records.columns import COLUMNS
from benchkit import python_api

from tests.support.cli import ROOT
from tests.support.records import make_record, write_all


class Performed:
    """Stands for the process of the sweep: remembers its arguments, leaves records, and ends as it is told."""

    def __init__(self, code=0, complaint="", records=(), error=None):
        self.end, self.records, self.error = (code, complaint), list(records), error
        self.arguments = []

    def __call__(self, arguments, progress):
        self.arguments = arguments
        [folder] = [each.split("=", 1)[-1].strip("'") for each in arguments if "/" in each]
        if self.records:
            write_all(Path(folder), self.records)
        if self.error:
            raise self.error
        return self.end


@pytest.fixture
def performs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def install(**how):
        performed = Performed(**how)
        monkeypatch.setattr(python_api, "perform", performed)
        return performed

    return install


def test_settings_become_command_line(performs, tmp_path):
    performed = performs(records=[make_record()])
    settings = {"measure.max_seconds": 5}
    table = benchkit.run(
        suite="allreduce", out="there", data_size=[1, 10], dtype="float32", arguments=["--config-dir", "c"], **settings
    )
    assert performed.arguments == [
        "--config-dir", "c", f"hydra.sweep.dir='{tmp_path}/there'", "+suite=allreduce", "data_size=1,10",
        "dtype=float32", "measure.max_seconds=5",
    ]  # fmt: skip
    assert table.attrs["folder"] == str(tmp_path / "there")
    assert table["median_s"].tolist() == pytest.approx([1e-3])


def test_sweep_is_resumed_where_it_is(performs, tmp_path):
    performed = performs(records=[make_record()])
    benchkit.run(resume=tmp_path / "there")
    assert performed.arguments == ["--resume", str(tmp_path / "there")]


def test_default_folder_is_that_of_command_line(performs, tmp_path):
    performs(records=[make_record()])
    folder = benchkit.run(suite="allreduce").attrs["folder"]
    assert re.fullmatch(rf"{tmp_path}/outputs/\d{{4}}-\d\d-\d\d_\d\d-\d\d-\d\d\.\d{{6}}", folder)


def test_failed_points_are_rows(performs):
    performs(code=1, records=[make_record(status="crash")])
    table = benchkit.run(suite="allreduce")
    assert table[["status", "reason"]].to_numpy().tolist() == [["crash", "it went crash\nand more"]]


@pytest.mark.parametrize(
    ("records", "left"),
    [
        ([make_record(), make_record(2.0, status="interrupted")], r"1 point .*run\(resume='.*/outputs/.*'\)"),
        ([make_record(status="interrupted"), make_record(2.0, status="interrupted")], "2 points "),
        ([], "no point "),
    ],
)
def test_early_end_says_what_is_left(performs, records, left):
    performs(code=1, complaint="the disk", records=records)
    with pytest.raises(benchkit.SweepStopped, match=f"^the disk; {left}") as stopped:
        benchkit.run(suite="allreduce")
    assert stopped.value.folder.is_absolute()
    performs(code=130, records=records, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt, match=f"^{left}"):
        benchkit.run(suite="allreduce")


def test_end_without_complaint_names_exit_code(performs):
    performs(code=143, records=[make_record()])
    with pytest.raises(benchkit.SweepStopped, match=r"143; 0 "):
        benchkit.run(suite="allreduce")


@pytest.mark.parametrize(
    ("errors", "complaint"),
    [
        ("", ""),
        ("a warning\nbenchkit: one\nbenchkit: several\n  lines\n", "several\n  lines"),
        ("Traceback\n  File\nValueError: this\n", "ValueError: this"),
    ],
)
def test_complaint_is_last_message(errors, complaint):
    assert python_api.complaint_in(errors) == complaint


def test_page_names_every_column_with_type_and_unit(golden, request):
    """`make golden` renews the table of the page, too."""
    path = ROOT / "docs" / "api.md"
    rows = [f"| `{name}` | {each.dtype} | {each.unit} | {each.meaning} |" for name, each in COLUMNS.items()]
    page, mark, _ = path.read_text().partition("| column | type | unit | meaning |\n|---|---|---|---|\n")
    renewed = f"{page}{mark}{chr(10).join(rows)}\n"  # the table ends the page
    if request.config.getoption("update_snapshots"):
        path.write_text(renewed)
    golden("\n".join(COLUMNS))
    assert path.read_text() == renewed


def test_wrong_settings_are_refused(performs):
    performs(code=2, complaint="datasize: wrong")
    with pytest.raises(benchkit.ConfigError, match=r"^datasize: wrong$"):
        benchkit.run(suite="allreduce", datasize=1)
    assert not hasattr(benchkit, "rum")
    with pytest.raises(benchkit.ConfigError, match="out, resume"):
        benchkit.run(out="a", resume="b")
    with pytest.raises(benchkit.ConfigError, match="out=…"):
        benchkit.run(**{"hydra.sweep.dir": "a"})
