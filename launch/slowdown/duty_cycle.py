"""Slow a process down by stopping it for a part of every cycle, where no quota can be set.

A helper process sends SIGSTOP and SIGCONT: the process runs for 1 / factor of every cycle. The
helper reads a new factor as a line on its standard input ("2.5", or "1" for full speed) and
answers each with a line. It exits with the slowed process, or at the end of its input.
"""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

SHORTEST_S = 0.001
"""Length of the shorter phase of a cycle, running or stopped; wake-ups would dominate less."""


class DutyCycle:
    mechanism = "duty_cycle"
    switchable = True

    def __init__(self, pid: int) -> None:
        self._helper = subprocess.Popen(
            [sys.executable, "-S", "-E", __file__, str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def apply(self, factor: float) -> None:
        self._send_factor(factor)

    def release(self) -> None:
        self._send_factor(1.0)

    def _send_factor(self, factor: float) -> None:
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        with suppress(BrokenPipeError):
            self._helper.stdin.write(f"{factor}\n".encode())
        if not self._helper.stdout.readline():
            raise RuntimeError(f"what slows process {os.getpid()} down has ended")


def cycle(pid: int) -> None:
    factor = 1.0
    while True:
        runs_s = max(SHORTEST_S, SHORTEST_S / (factor - 1)) if factor > 1 else None
        start_s = time.perf_counter()
        if select.select([sys.stdin.buffer], [], [], runs_s)[0]:
            line = os.read(0, 64).decode()
            if not line:
                return
            factor = float(line.split()[-1])
            os.write(1, b"ok\n")
            continue
        os.kill(pid, signal.SIGSTOP)
        time.sleep((time.perf_counter() - start_s) * (factor - 1))  # by the real running time
        os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    with suppress(ProcessLookupError):
        cycle(int(sys.argv[1]))
