"""A function in a process of its own: what it raises, and what becomes of one that does not end."""

import os
import signal
import time
from concurrent.futures.process import BrokenProcessPool

import pytest
from benchkit.api.fresh_process import run_in_fresh_process


def test_function_runs_in_another_process(tmp_path):
    file = tmp_path / "pid"
    run_in_fresh_process(write_pid, file, limit_s=60)
    assert int(file.read_text()) != os.getpid()


def test_what_it_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        run_in_fresh_process(divmod, 1, 0)


def test_function_that_does_not_end_is_ended(tmp_path, capfd):
    file = tmp_path / "pid"
    with pytest.raises(TimeoutError):
        run_in_fresh_process(write_pid, file, 1e6, limit_s=3)
    assert not os.path.exists(f"/proc/{file.read_text()}")
    assert write_pid.__name__ in capfd.readouterr().err


def test_killed_process_is_no_late_one():
    with pytest.raises(BrokenProcessPool):
        run_in_fresh_process(end_by_signal, limit_s=60)


def write_pid(file, rest_s=0.0):
    file.write_text(str(os.getpid()))
    time.sleep(rest_s)


def end_by_signal():
    os.kill(os.getpid(), signal.SIGKILL)
