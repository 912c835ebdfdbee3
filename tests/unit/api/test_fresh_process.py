"""A function in a process of its own: what it raises, and what becomes of one that does not end."""

import os
import signal
from concurrent.futures.process import BrokenProcessPool

import pytest
from benchkit.api.fresh_process import run_in_fresh_process


def test_function_runs_in_another_process(tmp_path):
    file = tmp_path / "pid"
    run_in_fresh_process(write_pid, file)
    assert int(file.read_text()) != os.getpid()


def test_what_it_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        run_in_fresh_process(divmod, 1, 0)


def test_process_that_is_killed_is_broken():
    with pytest.raises(BrokenProcessPool):
        run_in_fresh_process(end_by_signal)


def write_pid(file):
    file.write_text(str(os.getpid()))


def end_by_signal():
    os.kill(os.getpid(), signal.SIGKILL)
