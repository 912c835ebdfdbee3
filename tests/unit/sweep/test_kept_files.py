"""Files of a sweep that others may have written: numbers have ranges, and what is no file is refused."""

import json
import os
from collections.abc import Iterator

import pytest
from analysis.records import harvest
from benchkit import study
from benchkit.compare import command, session
from benchkit.errors import ConfigError
from benchkit.record.record import Record
from benchkit.selftest import floor
from benchkit.sweep import forecast, manifest, status
from msgspec import inspect

from tests.support.entries.point import point_folder

READ = (
    manifest.Manifest, point_folder.Owner, status.TimeLeft, status.Brief, study.StudyProgress, forecast.Total,
    forecast.TimedRecord,
    session.CountedRun, session.PlanMessage, command.ComparisonPlan, command.FloorFile,
    harvest.ManifestPoints, floor.StoredFloors, Record,
)  # fmt: skip
FREE = ("labels", "torch_settings")
"""What suites and torch say in words of their own, which is shown and not computed with."""


def without_range(kind: inspect.Type, path: str) -> Iterator[str]:
    if isinstance(kind, inspect.IntType | inspect.FloatType) and None in (
        kind.gt if kind.ge is None else kind.ge,
        kind.lt if kind.le is None else kind.le,
    ):
        yield path
    for each in getattr(kind, "fields", ()):
        yield from without_range(each.type, f"{path}.{each.name}")
    parts = (getattr(kind, name, None) for name in ("item_type", "key_type", "value_type"))
    for part in (*filter(None, parts), *getattr(kind, "item_types", ()), *getattr(kind, "types", ())):
        yield from without_range(part, path)


@pytest.mark.parametrize("kind", READ, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_number_that_is_read_has_a_range(kind):
    paths = without_range(inspect.type_info(kind), kind.__name__)
    assert [path for path in paths if not path.endswith(FREE)] == []


@pytest.mark.parametrize("pid", [10**26, 2**31, 0, -1, 1.5, "1"])
@pytest.mark.parametrize("seconds", [1e300, -1.0, 1e9, 5.0, None])
def test_status_shows_no_absurd_number(told, tmp_path, pid, seconds):
    entry = manifest.PointEntry("key", 0, "0", ["data_size=1"])
    manifest.Manifest([], {}, [entry]).write(tmp_path)
    owner = {"host": "elsewhere", "boot_id": "", "pid": pid}
    (tmp_path / ".owner").write_text(json.dumps(owner))
    (tmp_path / "progress.json").write_text(json.dumps({"seconds_left": seconds}))
    code, out, err = told("status", str(tmp_path))
    assert (code, err) == (0, "")
    assert "no process works on it" in out
    (tmp_path / ".owner").write_text(json.dumps(owner | {"pid": 7}))
    code, out, err = told("status", str(tmp_path))
    assert (code, err, "process 7 on elsewhere works on it" in out) == (0, "", True)
    assert ("left, until" in out) == (seconds in (5.0, 1e9))


def test_round_of_an_arm_that_is_none_is_refused(tmp_path):
    plan = command.new_plan(command.parse(["plain", "env:A=1", "+suite=allreduce"]), tmp_path)
    content = json.loads(plan.to_json())
    assert command.parse_plan(json.dumps(content).encode()) == plan
    content["order"][0]["roles"] = [0, 2]
    with pytest.raises(ValueError, match="arm"):
        command.parse_plan(json.dumps(content).encode())


KINDS = {
    "pipe": os.mkfifo,
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "folder": os.mkdir,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", ["--resume {} +suite=allreduce", "study=cs336_allreduce --resume {}"])
def test_claim_that_is_no_file_is_refused_in_one_line(told, tmp_path, kind, line):
    (tmp_path / "sweep").mkdir()
    KINDS[kind](tmp_path / "sweep" / ".owner")
    code, out, err = told(*line.format(tmp_path / "sweep").split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(tmp_path / "sweep" / ".owner") in err


def test_claim_is_kept_from_others_while_it_is_held(tmp_path):
    with point_folder.claim_folder(tmp_path):
        assert json.loads((tmp_path / ".owner").read_text())["pid"] == point_folder.this_process().pid
        with pytest.raises(ConfigError), point_folder.claim_folder(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []
