"""Signals that arrive where Python drops what their handler raises."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys, time
from benchkit import early_signals

class Told:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

def handler(number, frame):
    raise KeyboardInterrupt

def command():
    if sys.argv[1] == "raises":
        signal.signal(signal.SIGINT, handler)
    told = Told()
    try:
        del told
        time.sleep(60)
    except KeyboardInterrupt:
        return 7

early_signals.run_command_line(command)
"""
IMPORTING = """
import os, signal, time
from benchkit import early_signals

def command():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    except BaseException:
        raise ImportError("as an extension module does that cannot import another")

early_signals.run_command_line(command)
"""


@pytest.mark.parametrize(("handler", "code"), [("leaves", 130), ("raises", 7)])
def test_signal_in_a_destructor_is_not_lost(handler, code):
    done = subprocess.run([sys.executable, "-c", SCRIPT, handler], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (code, "")


def test_signal_that_an_import_swallows_ends_without_traceback():
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (143, "")


@pytest.mark.parametrize("fault", ["def __del__(self): 1 / 0", "x = 1 / 0"])
def test_other_exceptions_are_told(fault):
    command = f"def command():\n class A:\n  {fault}\n A()"
    failing = f"from benchkit import early_signals\n{command}\nearly_signals.run_command_line(command)"
    done = subprocess.run([sys.executable, "-c", failing], capture_output=True, text=True, timeout=50)
    assert "ZeroDivisionError" in done.stderr
