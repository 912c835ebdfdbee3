"""NCCL's flight recorder at a time-out, with ranks that answer their pipes as torch's do."""

import importlib.util
import time
from pathlib import Path

import pytest
from launch.ranks import flight_recorder
from launch.ranks.stack_dump import innermost_frame

from tests.support.ranks import run_ranks

BODIES = "tests.support.launch_bodies"


def hang(body: str, folder: Path, timeout_s: float = 3.0):
    with flight_recorder.recording(True) as recorder:
        return run_ranks(
            f"{BODIES}:{body}",
            [0, 1],
            environments=[recorder.environment()] * 2,
            folder=folder,
            timeout_s=timeout_s,
            recorder=recorder,
        ).failure


def test_time_out_leaves_dumps_and_blames_rank(tmp_path):
    failure = hang("hang_with_flight_recorder", tmp_path)
    assert (failure.kind, failure.rank) == ("timeout", 1)
    assert "rank 0 in synchronize (__init__.py:1)" in failure.message
    dumps = {path.name: path.read_text() for path in tmp_path.glob("nccl_trace_rank_*")}
    assert dumps == {"nccl_trace_rank_0": "dump of 0", "nccl_trace_rank_1": "dump of 1"}


def test_ranks_without_nccl_are_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(flight_recorder, "DUMP_S", 60.0)
    began = time.monotonic()
    assert hang("sleep", tmp_path).kind == "timeout"
    assert time.monotonic() - began < 30


def test_missing_dump_is_waited_for_briefly(tmp_path, monkeypatch):
    monkeypatch.setattr(flight_recorder, "DUMP_S", 0.2)
    recorder = flight_recorder.FlightRecorder(tmp_path)
    began = time.monotonic()
    recorder.wait_for([tmp_path / "never"])
    assert 0.2 <= time.monotonic() - began < 30


def test_no_recorder_where_none_is_needed():
    with flight_recorder.recording(False) as recorder:
        assert recorder is None


def test_pipes_are_removed_and_private():
    with flight_recorder.recording(True) as recorder:
        assert recorder.folder.stat().st_mode & 0o777 == 0o700
    assert not recorder.folder.exists()


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
    assert innermost_frame(log).waiting is waiting
