import copy

import pytest
from analysis.records.harvest import harvest
from analysis.screen.terminal import as_text
from analysis.table.combine import combine

from tests.support.records import grid, make_record, write_all
from tests.support.reports import describe


def test_harvest_finds_nested_records_in_order(tmp_path):
    write_all(tmp_path / "a" / "sweep", [make_record(size) for size in range(1, 13)])
    write_all(tmp_path / "b", grid())
    found = harvest([tmp_path / "a", tmp_path / "b"])
    assert len(found.rows) == 18
    assert [row["data_size"] for row in found.rows[:12]] == list(range(1, 13))
    assert found.skipped == []


def test_same_record_counts_once(tmp_path):
    folder = write_all(tmp_path / "a", [make_record()])
    assert len(harvest([folder, tmp_path, folder / "0" / "record.json"]).rows) == 1


def test_renamed_and_single_files_are_found(tmp_path):
    folder = write_all(tmp_path / "a", [make_record()])
    renamed = tmp_path / "gpu_record.json"
    (folder / "0" / "record.json").rename(renamed)
    assert len(harvest([tmp_path]).rows) == 1
    assert len(harvest([renamed]).rows) == 1


WHOLE = make_record()
PARTS = {
    "record": (WHOLE, ("suite", "status", "config", "world_size", "started_at", "environment", "cases", "error")),
    "config": (WHOLE["config"], ("backend", "hardware", "measure", "model", "seed", "start_method")),
    "case": (WHOLE["cases"][0], ("labels", "status", "start_offsets_s", "blocks", "stopped_by")),
}
SAMPLES = ([], [[]], [[1.0], [1.0, 2.0]], "text", [["a"]], [[None]], [[-1.0]], [[0.0] * 12])


@pytest.mark.parametrize("name", PARTS)
def test_report_survives_incomplete_record(tmp_path, name):
    """It is a row, where it still makes sense, or named and passed over; its neighbours are reported either way."""
    part, keys = PARTS[name]
    broken = []
    for key in keys:
        kept = part.pop(key)
        for strange in ("absent", None, "text", 7, {"a": 1}, [[1.0], [1.0, 2.0]]):
            if strange != "absent":
                part[key] = strange
            broken.append(copy.deepcopy(WHOLE))
        part[key] = kept
    if name == "case":
        for samples in SAMPLES:
            broken.append(copy.deepcopy(WHOLE))
            broken[-1]["cases"][0]["samples_s"] = samples
    for number, record in enumerate(broken):
        if isinstance(record.get("config"), dict):
            record["config"]["data_size"] = 2.0 + number  # no two are alike
    write_all(tmp_path, [make_record(), *broken, make_record(1000.0)])
    found = harvest([tmp_path])
    assert len({row["path"] for row in found.rows}) + len(found.skipped) == len(broken) + 2
    assert {1.0, 1000.0} <= {row.get("data_size") for row in found.rows}
    table = combine(found.rows)
    assert as_text(table)
    assert describe(table)


def test_run_is_named_after_sweep_folder(tmp_path):
    write_all(tmp_path / "monday", [make_record()])
    nested = write_all(tmp_path / "tuesday" / "gloo", [make_record(started_at="2026-01-02")])
    (nested.parent / "multirun.yaml").touch()
    found = harvest([tmp_path])
    assert [row["run"] for row in found.rows] == ["monday", "tuesday"]
    assert set(found.ranks["run"]) == {"monday", "tuesday"}


def test_equal_run_names_include_parent_folder(tmp_path):
    for day, place in enumerate(("here/x", "there/x", "there/y"), start=1):
        write_all(tmp_path / place, [make_record(started_at=f"2026-01-0{day}")])
    assert [row["run"] for row in harvest([tmp_path]).rows] == ["here/x", "there/x", "y"]
