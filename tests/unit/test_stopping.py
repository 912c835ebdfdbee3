"""Signals that arrive where Python drops what their handler raises."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, signal, sys, time
from benchkit import stopping

stopping.end_when_told()
if sys.argv[1] == "raises":
    def handler(number, frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGINT, handler)

class Told:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

told = Told()
try:
    del told
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize(("handler", "code"), [("leaves", 130), ("raises", 7)])
def test_signal_in_a_destructor_is_not_lost(handler, code):
    done = subprocess.run([sys.executable, "-c", SCRIPT, handler], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (code, "")


def test_other_exceptions_of_destructors_are_told():
    failing = "from benchkit import stopping\nstopping.end_when_told()\nclass A:\n def __del__(self): 1 / 0\ndel A().x"
    done = subprocess.run([sys.executable, "-c", failing], capture_output=True, text=True, timeout=50)
    assert "ZeroDivisionError" in done.stderr
