"""What ranks report and leave: plain JSON, logs, stacks, and dumps of NCCL's flight recorder."""

import importlib.util
import json
import resource
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.entries.launch_ranks import encode_result, flight_recorder, innermost_frame, logs
from tests.support.launch_bodies import run
from tests.support.ranks import run_ranks


def test_unstorable_result_is_rank_exception(tmp_path):
    outcome = run("unstorable", tmp_path, count=1)
    assert not outcome.results
    assert (outcome.failure.kind, outcome.failure.type) == ("exception", "TypeError")
    for each in (2**70, "\ud800", {1: 2}, object()):
        with pytest.raises(TypeError):
            encode_result(each)


@dataclass
class Result:
    """A result with types, as rank 0's is."""

    samples: list[float]
    labels: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


def test_result_report_refuses_lossy_values(golden):
    reasons = []
    for result in (
        {1, 2},
        Result([], details={"data": [1, b"bytes"]}),
        Result([], details={"by": {0.5: 1}}),
        Result([], details={"count": -(2**63) - 1}),
    ):
        with pytest.raises(TypeError) as error:
            encode_result(result)
        reasons.append(str(error.value))
    golden("\n".join(reasons))


@pytest.mark.parametrize("result", [Result([], labels={"which": 3}), Result([float("nan")]), CYCLE])
def test_result_report_refuses_what_has_not_its_type(result):
    with pytest.raises(TypeError):
        encode_result(result)


def test_result_report_holds_dataclass_fields():
    details = {"text": "µ", "no": None, "yes": True, "many": [2**63 - 1, (0.5, [])], "by": {"a": {}}}
    result = Result([1.0, 2], {"a": "b"}, details)
    assert json.loads(encode_result(result)) == {"result": json.loads(json.dumps(asdict(result)))}


@pytest.mark.parametrize("body", ["no_report", "no_exception"])
def test_invalid_report_counts_as_missing(tmp_path, body):
    assert run(body, tmp_path, count=1).failure.kind == "exit"


def test_long_message_keeps_start_and_end(tmp_path):
    failure = run("long_message", tmp_path, count=1).failure
    for text in (failure.message, failure.traceback):
        assert logs.TEXT_CHARS < len(text) < logs.TEXT_CHARS + 100
    assert failure.message[:2] + failure.message[-2:] == "aazz"


def test_empty_exception_reports_type_name(tmp_path):
    assert run("speechless", tmp_path, count=1).failure.message == "Mute"


def test_shorten_keeps_short_text(monkeypatch, golden):
    monkeypatch.setattr(logs, "TEXT_CHARS", 10)
    assert logs.shorten("x" * 10) == "x" * 10
    golden(logs.shorten("abcde-vwxyz"))


def test_long_log_is_cut_after_point(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LOG_HALF_BYTES", 3)
    run("identity", tmp_path, count=1)
    assert (tmp_path / "rank_0.log").read_text() == "out\n... 6 bytes left out ...\n 0\n"


def test_shorten_log_keeps_short_or_missing_log(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LOG_HALF_BYTES", 3)
    log = tmp_path / "log"
    logs.shorten_log(log)
    assert not log.exists()
    log.write_text("abcdef")
    logs.shorten_log(log)
    assert log.read_text() == "abcdef"


def with_stack(log: Path, before_bytes: int) -> Path:
    """A log that ends with a stack, after so many bytes (a hole: they take no room on the disk)."""
    with log.open("wb") as file:
        file.truncate(before_bytes)
        file.seek(before_bytes)
        file.write(b'Current thread (most recent call first):\n  File "/a/b.py", line 3 in step\n')
    return log


def test_rank_that_aborts_tells_its_exception(tmp_path):
    failure = run("abort_with_words", tmp_path, count=1).failure
    assert (failure.kind, failure.message) == ("signal", "killed by SIGABRT: a GPU is lost")
    assert logs.uncaught_what(tmp_path / "none") == ""


def test_thread_ends_rank_whose_job_waits(tmp_path):
    failure = run("fail_beside", tmp_path).failure
    assert (failure.rank, failure.kind, failure.message) == (1, "exception", "a link is down")


def test_innermost_frame_reads_end_of_log(tmp_path):
    assert innermost_frame(with_stack(tmp_path / "log", 1 << 40)).location == "step (b.py:3)"
    assert innermost_frame(with_stack(tmp_path / "log", 0)).location == "step (b.py:3)"
    assert innermost_frame(tmp_path / "none").location == "an unknown place"


def test_innermost_frame_cuts_long_stack(tmp_path):
    log = with_stack(tmp_path / "log", 0)
    with log.open("a") as file:
        file.write('  File "/a/c.py", line 4 in outer\n' * (logs.TEXT_CHARS // 30))
    assert logs.TEXT_CHARS < len(innermost_frame(log).stack) < logs.TEXT_CHARS + 100


def test_innermost_frame_leaves_out_lines_of_other_threads(tmp_path):
    log = with_stack(tmp_path / "log", 0)
    frame = innermost_frame(log)
    with log.open("a") as file:
        file.write("[rank0]:[E1126 ProcessGroupNCCL.cpp:1628] preparing to dump debug info\n")
    assert innermost_frame(log) == frame


def test_time_out_leaves_dumps_and_blames_rank(tmp_path, golden):
    used_s = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with flight_recorder.open_flight_recorder(True) as recorder:
        assert recorder.folder.stat().st_mode & 0o777 == 0o700
        failure = run_ranks(
            "tests.support.launch_bodies:hang_with_flight_recorder",
            [0, 1],
            environments=[recorder.environment()] * 2,
            folder=tmp_path,
            timeout_s=2.0,
            recorder=recorder,
        ).failure
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - used_s < 1.0  # nobody has polled
    assert not recorder.folder.exists()
    assert (failure.kind, failure.rank) == ("timeout", 1)
    golden(failure.message, {r"bodies.py:\d+": "bodies.py:LINE"})
    dumps = {path.name: path.read_text() for path in tmp_path.glob("nccl_trace_rank_*")}
    assert dumps == {"nccl_trace_rank_0": "dump of 0", "nccl_trace_rank_1": "dump of 1"}


def test_only_ranks_with_nccl_are_waited_for(tmp_path, monkeypatch):
    with flight_recorder.open_flight_recorder(True) as recorder:
        monkeypatch.setattr(flight_recorder, "DUMP_S", 60.0)
        recorder.wait_for(recorder.request_dumps([0, 1]))
        monkeypatch.setattr(flight_recorder, "DUMP_S", 0.2)
        began = time.monotonic()
        recorder.wait_for([tmp_path / "never"])
    assert 0.2 <= time.monotonic() - began < 30
    with flight_recorder.open_flight_recorder(False) as none:
        assert none is None


def test_torch_knows_variables_and_pipe():
    """In its headers, as far as these name them."""
    torch = importlib.util.find_spec("torch").origin
    headers = Path(torch).parent / "include" / "torch" / "csrc" / "distributed" / "c10d"
    text = (headers / "ProcessGroupNCCL.hpp").read_text()
    for name in ("TRACE_BUFFER_SIZE", "DUMP_ON_TIMEOUT", "DEBUG_INFO_PIPE_FILE", "ASYNC_ERROR_HANDLING"):
        assert f"TORCH_NCCL_{name}" in text
    assert 'fileStem, rank, ".pipe"' in text


@pytest.mark.parametrize(
    ("source", "waiting"),
    [("torch/cuda/__init__.py", True), ("torch/distributed/distributed_c10d.py", True), ("mine/step.py", False)],
)
def test_waiting_places_include_cuda(tmp_path, source, waiting):
    log = tmp_path / "log"
    log.write_text(f'(most recent call first):\n  File "/site-packages/{source}", line 3 in f\n')
    assert innermost_frame(log).is_waiting is waiting
