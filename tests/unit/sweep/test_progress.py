import pytest
from benchkit.statistics.modes import Modes
from benchkit.sweep.progress import Progress, point_line, readable, time_text


def record(**changes):
    case = {
        "labels": {}, "status": "ok", "reason": "", "rank": None, "payload_bytes": 10**6, "bus_factor": 1.5,
        "calls_per_sample": 1, "blocks": [10], "samples_s": [[0.001] * 10, [0.002] * 10],
        "start_offsets_s": [[0.0] * 10] * 2,
    }  # fmt: skip
    result = {
        "suite": "allreduce", "status": "ok", "error": None, "world_size": 2, "cases": [case],
        "config": {"backend": {"name": "gloo"}, "hardware": {"device": "cpu"}},
        "overrides": ["+suite=allreduce", "data_size=1", "hydra.verbose=true"],
    }  # fmt: skip
    return result | changes


def test_a_point_is_one_line_with_settings_median_spread_and_rate():
    assert point_line(record()) == (
        "allreduce gloo cpu x2  data_size=1  2 ms (too few independent samples for an interval)  mean 2  p25 2  "
        "p95 2 ms  (10 samples)  algbw 0.5 GB/s  busbw 0.75 GB/s"
    )


def test_a_time_has_an_interval_of_its_own_shape_or_both_its_modes():
    summary = {
        "median_s": 1e-3, "ci_low_s": 0.9e-3, "ci_high_s": 1.4e-3, "mean_s": 2e-3, "p25_s": 0.8e-3, "p95_s": 5e-3,
    }  # fmt: skip
    assert time_text(summary, None) == "1 ms [0.9, 1.4]  mean 2  p25 0.8  p95 5 ms"
    assert time_text(summary, Modes(0.6e-3, 5e-3, 0.3)) == "0.6 ms (70%) and 5 ms (30%)  mean 2  p25 0.8  p95 5 ms"


def test_a_failure_says_where_and_why():
    error = {"message": "killed by SIGKILL\nmore", "rank": 1, "log": "rank_1.log"}
    line = point_line(record(status="crash", error=error, cases=[]))
    assert line == "allreduce gloo cpu x2  data_size=1  CRASH on rank 1: killed by SIGKILL (rank_1.log)"


def test_several_cases_have_a_line_each():
    [case] = record()["cases"]
    bad = {**case, "labels": {"order": "after"}, "status": "invalid", "reason": "element 3: 5, expected 4"}
    lines = point_line(record(cases=[{**case, "labels": {"order": "before"}}, bad], status="invalid")).split("\n")
    assert lines[1].strip().startswith("order=before  2 ms")
    assert lines[2].strip() == "order=after  INVALID: element 3: 5, expected 4"


def test_points_of_a_sweep_are_counted():
    progress = Progress(12)
    assert progress.line(record()).startswith("[ 1/12] ")
    assert progress.line(record()).startswith("[ 2/12] ")
    progress.stop()


def test_a_point_alone_has_no_number():
    assert Progress().line(record()).startswith("allreduce")


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (0.0455, "45.5 ms"), (1.234e-4, "123.4 µs"), (5e-8, "50 ns")]
)
def test_times_get_a_unit_that_suits_them(seconds, text):
    assert readable(seconds) == text
