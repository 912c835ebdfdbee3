import pytest
from analysis.report import sentences
from analysis.run_spread import describe_floor
from benchkit.record import files
from benchkit.sweep.folder import print_table

from tests.support.records import grid, make_record, tabulate_records, write_all

DAY = 86400.0


def floor(sigma_run=0.0141, at="all_reduce 1MiB", days=1.0):
    """Two identical runs differ by ± 4 % with the default."""
    return {"id": "0123456789ab", "age_s": days * DAY, "sigma_run": sigma_run, "at": at}


def test_line_names_sizes_and_day():
    records = [
        make_record(1, noise_floor=floor()),
        make_record(2, noise_floor=floor()),
        make_record(3, noise_floor=floor(0.04, "all_reduce 1KiB", 10)),
    ]
    assert describe_floor(tabulate_records(records)) == (
        "noise floor of this machine: identical runs differ by ± 4 % at all_reduce 1MiB (selftest of 2025-12-31), "
        "± 12 % at all_reduce 1KiB (selftest of 2025-12-22)"
    )


def test_missing_floor_is_said_once():
    table = tabulate_records(grid())
    assert describe_floor(table) == "no noise floor: run `python -m benchkit selftest`"
    text = sentences.describe(table)
    assert text.count("No noise floor: run `python -m benchkit selftest`.") == 1


def test_rows_without_floor_are_counted():
    table = tabulate_records([make_record(1, noise_floor=floor()), make_record(1, 4), make_record(2, 4)])
    told = "; no noise floor for 2 of 3 rows: run `python -m benchkit selftest` (--ranks, --backend)"
    assert describe_floor(table).endswith(told)


def test_failures_alone_say_nothing_of_a_floor():
    assert describe_floor(tabulate_records([make_record(status="oom")])) == ""


@pytest.mark.parametrize(
    ("sigma_run", "seconds", "ends"),
    [
        (0.0141, 1.03e-3, "1.03 times as fast as backend=gloo, less than identical runs differ by (± 4 %)."),
        (0.0141, 1.06e-3, "1.06 times as fast as backend=gloo."),
        (None, 1.03e-3, "1.03 times as fast as backend=gloo."),
    ],
)
def test_winner_below_floor_is_marked(sigma_run, seconds, ends):
    changes = {"spread": 0.001, "noise_floor": sigma_run and floor(sigma_run)}
    slower = make_record(seconds=seconds, spread=0.001)  # one of both knows a floor
    table = tabulate_records([slower, make_record(backend="mpi", seconds=1e-3, **changes)])
    [line] = [line for line in sentences.describe(table).splitlines() if "fastest of" in line]
    assert line.endswith(ends)


def test_repeated_winner_needs_no_floor():
    records = [
        make_record(
            seconds=seconds * (1 + run / 1e4), backend=backend, spread=0.001, noise_floor=floor(),
            started_at=f"2026-01-0{run + 1}T00:00:00+00:00",
        )
        for run in range(7)
        for backend, seconds in (("gloo", 1.03e-3), ("mpi", 1e-3))
    ]  # fmt: skip
    table = tabulate_records(records)
    table["run"] = table["started_at"]
    [line] = [line for line in sentences.describe(table).splitlines() if "fastest of" in line]
    assert line.endswith("1.03 times as fast as backend=gloo.")


@pytest.mark.parametrize("started_at", ["", "0001-01-01T00:00:00", "yesterday"])
def test_unreadable_date_keeps_floor(started_at):
    record = make_record(started_at=started_at, finished_at=None, noise_floor=floor())
    assert "± 4 % at all_reduce 1MiB (selftest)" in describe_floor(tabulate_records([record]))


@pytest.mark.parametrize("wrong", [{"id": "\x1b[2J"}, {"at": "a\nb"}, {"age_s": -1}, {"sigma_run": "x"}])
def test_hostile_floor_in_a_record_is_refused(wrong, tmp_path):
    write_all(tmp_path, [make_record(noise_floor=floor() | wrong)])
    with pytest.raises(ValueError, match="noise_floor"):
        files.read(tmp_path / "0" / files.FILE_NAME)


def test_table_of_a_sweep_ends_with_the_line(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    caplog.set_level("INFO", logger="benchkit")
    print_table(write_all(tmp_path / "points", [make_record(noise_floor=floor())]))
    [text] = [record.getMessage() for record in caplog.records]
    assert "\n\nnoise floor of this machine: identical runs differ by ± 4 %" in text


def test_corrupt_file_of_floors_is_told_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "benchkit").mkdir()
    (tmp_path / "benchkit" / "noise_floor.json").write_text("{")
    print_table(write_all(tmp_path / "points", [make_record(1), make_record(2)]))
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"{tmp_path}/benchkit/noise_floor.json: ignored")
