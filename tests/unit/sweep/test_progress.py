from dataclasses import replace

import pytest
from benchkit.record.record import ErrorReport
from benchkit.statistics.modes import Modes
from benchkit.sweep.progress import Progress, point_line, readable, time_text

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
