import pytest
from analysis.table.repetitions import describe_floor
from benchkit import cli as app
from benchkit.record import files

from tests.support.records import grid, make_record, tabulate_records, write_all
from tests.support.reports import describe

DAY = 86400.0


def floor(sigma_run=0.0141, at="all_reduce 1MiB", days=1.0):
    """Two identical runs differ by ± 4 % with the default."""
    return {"id": "0123456789ab", "age_s": days * DAY, "sigma_run": sigma_run, "at": at}


def test_line_names_sizes_and_day(golden):
    several = [
        make_record(1, noise_floor=floor()),
        make_record(2, noise_floor=floor()),
        make_record(3, noise_floor=floor(0.04, "all_reduce 1KiB", 10)),
    ]
    in_part = [make_record(1, noise_floor=floor()), make_record(1, 4), make_record(2, 4)]
    told = [describe_floor(tabulate_records(records)) for records in (several, in_part, grid())]
    golden("\n".join(told))
    assert "1MiB (selftest of 2025-12-31), ± 12 % at all_reduce 1KiB (selftest of 2025-12-22)" in told[0]


def test_missing_floor_is_said_once():
    assert describe(tabulate_records(grid())).count("benchkit selftest") == 1


def test_failures_alone_say_nothing_of_a_floor():
    assert describe_floor(tabulate_records([make_record(status="oom")])) == ""


@pytest.mark.parametrize("started_at", ["", "0001-01-01T00:00:00", "yesterday"])
def test_unreadable_date_keeps_floor(started_at):
    record = make_record(started_at=started_at, finished_at=None, noise_floor=floor())
    assert "± 4 %" in describe_floor(tabulate_records([record]))


@pytest.mark.parametrize("wrong", [{"id": "\x1b[2J"}, {"at": "a\nb"}, {"age_s": -1}])
def test_hostile_floor_in_a_record_is_refused(wrong, tmp_path):
    write_all(tmp_path, [make_record(noise_floor=floor() | wrong)])
    with pytest.raises(ValueError, match="noise_floor"):
        files.read(tmp_path / "0" / files.FILE_NAME)


def test_corrupt_file_of_floors_is_told_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "benchkit").mkdir()
    (tmp_path / "benchkit" / "noise_floor.json").write_text("{")
    app.print_table(write_all(tmp_path / "points", [make_record(1), make_record(2)]))
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"{tmp_path}/benchkit/noise_floor.json: ignored")


@pytest.mark.parametrize(("sigma_run", "told"), [(0.0141, "± 4 %"), (0.25, "± 100 %"), (0.82, "a factor of 9.7")])
def test_more_than_twice_is_a_factor(sigma_run, told):
    assert f"differ by {told} at all_reduce" in describe_floor(
        tabulate_records([make_record(noise_floor=floor(sigma_run))])
    )
