import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from benchkit.point.point import Point
from benchkit.record.record import ErrorReport
from benchkit.statistics.modes import Modes
from benchkit.suites.pair_matrix.config import PairMatrixConfig
from benchkit.sweep.entries import Entry
from benchkit.sweep.manifest import Manifest
from benchkit.sweep.point_lines import point_line, readable, time_text
from benchkit.sweep.progress import Progress
from benchkit.sweep.tally import Prospect, Tally, prospects

from tests.support.configs import made
from tests.support.records import as_case, as_record, make_record

CASE = as_case(
    payload_bytes=10**6, bus_factor=1.5, blocks=[10], samples_s=[[0.001] * 10, [0.002] * 10],
    start_offsets_s=[[0.0] * 10] * 2,
)  # fmt: skip


def record(**changes):
    """A point of one case."""
    made = as_record(make_record(overrides=["+suite=allreduce", "data_size=1", "hydra.verbose=true"]))
    return replace(made, **{"cases": [CASE], **changes})


def test_point_line_has_settings_and_statistics():
    assert point_line(record()) == (
        "allreduce gloo cpu x2  data_size=1  2 ms (too few independent samples for an interval)  mean 2  p25 2  "
        "p95 2 ms  (10 samples)  algbw 0.5 GB/s  busbw 0.75 GB/s"
    )


def test_point_line_starts_with_title():
    overrides = ["+suite=collective", "collective=all_gather", "backend=gloo", "dtype=float64", "+reduce_op=sum"]
    lines = point_line(record(suite="collective", title="all_gather", overrides=overrides))
    assert lines.startswith("all_gather gloo cpu x2  dtype=float64 reduce_op=sum  2 ms")


def test_time_text_shows_interval_or_modes():
    summary = {
        "median_s": 1e-3, "ci_low_s": 0.9e-3, "ci_high_s": 1.4e-3, "mean_s": 2e-3, "p25_s": 0.8e-3, "p95_s": 5e-3,
    }  # fmt: skip
    assert time_text(summary, None) == "1 ms [0.9, 1.4]  mean 2  p25 0.8  p95 5 ms"
    assert time_text(summary, Modes(0.6e-3, 5e-3, 0.3)) == "0.6 ms (70%) and 5 ms (30%)  mean 2  p25 0.8  p95 5 ms"


def test_long_tail_has_its_own_unit():
    summary = {
        "median_s": 4e-4, "ci_low_s": 3e-4, "ci_high_s": 5e-4, "mean_s": 2e-3, "p25_s": 0.8e-3, "p95_s": 10.79e-3,
    }  # fmt: skip
    assert time_text(summary, None) == "400 µs [300, 500]  mean 2  p25 0.8  p95 10.79 ms"


def test_point_line_names_failed_rank():
    error = ErrorReport(message="killed by SIGKILL\nmore", rank=1, log="rank_1.log")
    line = point_line(record(status="crash", error=error, cases=[]))
    assert line == "allreduce gloo cpu x2  data_size=1  CRASH on rank 1: killed by SIGKILL (rank_1.log)"


def test_each_case_has_line():
    good = replace(CASE, labels={"order": "before"})
    bad = replace(CASE, labels={"order": "after"}, status="invalid", reason="element 3: 5, expected 4")
    lines = point_line(record(cases=[good, bad], status="invalid")).split("\n")
    assert lines[1].strip().startswith("order=before  2 ms")
    assert lines[2].strip() == "order=after  INVALID: element 3: 5, expected 4"


def test_size_of_case_has_unit():
    lines = point_line(record(cases=[replace(CASE, labels={"data_size": size}) for size in (2**-18, 0.5, 4.0)]))
    assert [line.split("  ")[0].strip() for line in lines.split("\n    ")[1:]] == [
        "data_size=4 B", "data_size=512 KiB", "data_size=4 MiB",
    ]  # fmt: skip


def test_progress_counts_points():
    progress = Progress(12)
    assert progress.line(record()).startswith("[ 1/12] ")
    assert progress.line(record()).startswith("[ 2/12] ")
    progress.stop()


def test_single_point_has_no_number():
    assert Progress().line(record()).startswith("allreduce")


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0455, "45.5 ms"), (1.234e-4, "123.4 µs"), (5e-8, "50 ns")]
)
def test_readable_picks_time_unit(seconds, text):
    assert readable(seconds) == text


def test_time_left_is_said_now_and_then_without_terminal(caplog, monkeypatch):
    caplog.set_level("INFO", logger="benchkit")
    progress = Progress(80)
    progress.expect(70, 240.0)
    assert not caplog.messages
    monkeypatch.setattr("benchkit.sweep.progress.EVERY_S", -1.0)
    progress.expect(68, 200.0)
    progress.expect(0, 0.0)
    progress.stop()
    [line] = caplog.messages
    assert line.startswith("68 of 80 points left, about 3 min 20 s, until ")


def seconds_left(points, folder, monkeypatch):
    """The time left after the first two points, which took 10 s and 2 s."""
    clock = iter([0.0, 10.0, 12.0])
    monkeypatch.setattr("benchkit.sweep.tally.time.monotonic", lambda: next(clock))
    tally = Tally(folder, [], points, None)
    assert tally.seconds_left() is None
    tally.add("ok")
    tally.add("ok")
    return tally.seconds_left()


def test_time_left_depends_on_suite(tmp_path, monkeypatch):
    points = [Prospect(suite) for suite in ("slow", "quick", "quick", "slow", "other")]
    assert seconds_left(points, tmp_path, monkeypatch) == 2.0 + 10.0 + 6.0


def test_time_left_depends_on_size(tmp_path, monkeypatch):
    points = [Prospect("one", size) for size in (2.0**30, 2.0**20, 2.0**31, 2.0**16, 2.0**28)]
    assert seconds_left(points, tmp_path, monkeypatch) == 10.0 + 2.0 + 10.0


def test_time_left_is_that_of_earlier_sweep(tmp_path, monkeypatch):
    points = [Prospect("one", earlier_s=3.0), Prospect("one"), Prospect("one", earlier_s=4.5), Prospect("one")]
    assert seconds_left(points, tmp_path, monkeypatch) == 4.5 + 6.0


def test_known_of_point_are_its_size_and_earlier_time(tmp_path):
    config = made(PairMatrixConfig, suite="pair_matrix", sizes=[1.0], world_size=4, threads_per_rank=1)
    config.hardware = SimpleNamespace(slowdown=1.0)
    points = [Point(config, tmp_path / "a", []), Point(config, tmp_path / "b", [])]
    before = tmp_path / "outputs" / "earlier"
    (before / "0").mkdir(parents=True)
    Manifest([], {}, [Entry("known", 0, "0", [])]).write(before)
    record = make_record(status="ok") | {"phases_s": {"total": 7.0}}
    (before / "0" / "record.json").write_text(json.dumps(record))
    first, second = prospects(points, ["known", "new"], before.parent)
    assert first == Prospect("pair_matrix", 4 * 3 * 2**20, 7.0)
    assert second == replace(first, earlier_s=None)
    assert prospects(points[:1], ["known"], before.parent) == [second]


@pytest.mark.slow
def test_terminal_shows_what_ranks_do(cli):
    """One line that is rewritten: point, phase, time left; gone at the end."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "benchkit", "+suite=allreduce", "-m", "data_size=0.001,0.002", "measure=quick"]
    process = subprocess.Popen(command, cwd=cli.folder, env=cli.environment, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of the terminal
        while piece := os.read(ours, 4096):
            shown += piece
    os.close(ours)
    out, _ = process.communicate()
    assert process.returncode == 0
    lines = [line.removeprefix("\x1b[2K").strip() for line in shown.decode().split("\r")]
    assert any(line.startswith("[1/2] verifying case 1 of 2; +suite=allreduce data_size=0.001") for line in lines)
    assert any(re.search(r"measuring 2 cases, at most [\d.]+ s, until \d\d:\d\d:\d\d", line) for line in lines)
    assert any(line.startswith("[2/2] building cases; 1 of 2 points left, about ") for line in lines)
    assert lines[-1] == ""
    assert b"verifying" not in out
    assert "verifying" not in (cli.folder / "outputs/latest/benchkit.log").read_text()
