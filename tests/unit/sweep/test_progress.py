import contextlib
import os
import pty
import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from benchkit.record.naming import format_seconds
from benchkit.record.record import ErrorReport
from benchkit.statistics.intervals import Modes
from benchkit.sweep import progress as progress_module
from benchkit.sweep.progress import SweepProgress, point_line, time_text
from benchkit.sweep.tally import Tally

from tests.support.records import as_case, as_record, make_record

CASE = as_case(
    payload_bytes=10**6, bus_factor=1.5, blocks=[10], samples_s=[[0.001] * 10, [0.002] * 10],
    start_offsets_s=[[0.0] * 10] * 2,
)  # fmt: skip


def record(**changes):
    """A point of one case."""
    made = as_record(make_record(overrides=["+suite=allreduce", "data_size=1", "hydra.verbose=true"]))
    return replace(made, **{"cases": [CASE], **changes})


TITLED = ["+suite=collective", "collective=all_gather", "backend=gloo", "dtype=float64", "+reduce_op=sum"]
KILLED = ErrorReport(message="killed by SIGKILL\nmore", rank=1, log="rank_1.log")
WRONG = replace(CASE, labels={"order": "after"}, status="invalid", reason="element 3: 5, expected 4")
SUMMARY = {"median_s": 1e-3, "ci_low_s": 0.9e-3, "ci_high_s": 1.4e-3, "mean_s": 2e-3, "p25_s": 0.8e-3, "p95_s": 5e-3}


def test_lines_of_points(golden):
    """One case, a title, a rank that failed, a wrong case beside a sound one, sizes, a repetition."""
    repeated = make_record(overrides=["+suite=allreduce", "repeat=3"], repetition=1)
    repeated["config"]["repeat"] = 3
    lines = [
        point_line(record()),
        point_line(record(suite="collective", title="all_gather", overrides=TITLED)),
        point_line(record(status="crash", error=KILLED, cases=[])),
        point_line(record(cases=[replace(CASE, labels={"order": "before"}), WRONG], status="invalid")),
        point_line(record(cases=[replace(CASE, labels={"data_size": size}) for size in (2**-18, 0.5, 4.0)])),
        point_line(as_record(repeated)),
    ]
    golden("\n".join(lines))


def test_time_text_shows_interval_or_modes(golden):
    tail = SUMMARY | {"median_s": 4e-4, "ci_low_s": 3e-4, "ci_high_s": 5e-4, "p95_s": 10.79e-3}
    lines = [time_text(SUMMARY, None), time_text(SUMMARY, Modes(0.6e-3, 5e-3, 0.3)), time_text(tail, None)]
    golden("\n".join([*lines, *(format_seconds(seconds) for seconds in (2.5, 0.0455, 1.234e-4, 5e-8))]))


def test_mean_that_one_sample_moves_has_no_exponent():
    assert "e+" not in time_text(SUMMARY | {"median_s": 4e-4, "mean_s": 0.7228, "p95_s": 9e-4}, None)


def test_progress_counts_points():
    progress = SweepProgress(12)
    assert progress.line(record()).startswith("[ 1/12] ")
    assert progress.line(record()).startswith("[ 2/12] ")
    progress.stop()
    assert SweepProgress().line(record()).startswith("allreduce")


def test_time_left_is_said_now_and_then_without_terminal(caplog, monkeypatch):
    caplog.set_level("INFO", logger="benchkit")
    progress = SweepProgress(80)
    progress.expect(70, 240.0)
    assert not caplog.messages
    SweepProgress(90).expect(90, 4000.0)
    assert caplog.messages.pop().startswith("90 of 90 ")
    monkeypatch.setattr(progress_module, "EVERY_S", -1.0)
    progress.expect(68, 200.0)
    progress.expect(0, 0.0)
    progress.stop()
    line = caplog.messages[-1]
    assert line.startswith("68 of 80 ")


def test_time_left_follows_how_much_slower_points_were_than_expected(tmp_path, monkeypatch):
    clock = iter([0.0, 12.0, 12.0, 12.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    tally = Tally(tmp_path, ["ok"], [1.0, 3.0, 5.0, 7.0], None)
    assert tally.seconds_left() == 16.0
    monkeypatch.setattr(tally, "_write", lambda: None)
    tally.add("ok")
    tally.add("ok")
    assert tally.seconds_left() == 36.0


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
    for begin in (r"\[1/2\] verifying ", r"\[1/2\] measuring .* \d\d:\d\d:\d\d", r"\[2/2\] building .* about "):
        assert any(re.match(begin, line) for line in lines)
    assert lines[-1] == ""
    assert b"verifying" not in out
    assert "verifying" not in (cli.folder / "outputs/latest/benchkit.log").read_text()
