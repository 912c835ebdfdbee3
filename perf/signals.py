"""Check how commands end on SIGINT or SIGTERM at random moments: exit code 130 or 143, no traceback, nothing left.

    python -m perf.signals [--moments 100] [--seed 0]

Ctrl-C reaches all processes of the terminal, SIGTERM only the command. A signal before benchkit's first line meets
Python's own handlers: such moments are counted separately, and may leave a traceback. A command that has finished its
work may still return 0; such outcomes are shown separately, too.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.cli import Cli, wait_until

SWEEP = ["+suite=allreduce", "-m", "data_size=1KiB,2KiB", "world_size=2", "measure=quick", "hydra.sweep.dir=sweep"]
COMMANDS = {
    "a sweep": ("benchkit", SWEEP),
    "slowed ranks": ("benchkit", ["+suite=matmul_lut", "sizes=[64]", "hardware.slowdown=2", "measure=quick"]),
    "a dry run": ("benchkit", [*SWEEP, "--dry-run"]),
    "--resume": ("benchkit", ["--resume", "sweep", "--retry", "ok"]),
    "compare": ("benchkit", ["compare", "--pairs", "2", "plain", "set:seed=2", *SWEEP[:1], *SWEEP[3:5]]),
    "status": ("benchkit", ["status", "sweep"]),
    "analysis": ("analysis", ["sweep"]),
    "analysis --html": ("analysis", ["sweep", "--html"]),
    "analysis compare": ("analysis", ["compare", "sweep", "sweep"]),
}
NEED_RECORDS = {"--resume", "status", "analysis", "analysis --html", "analysis compare"}
NEVER = ("Traceback", "Exception ignored", "Fatal Python error")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Place:
    """A folder with its own TMPDIR, and what commands leave in it and in the host's shared memory."""

    def __init__(self, folder: Path) -> None:
        self.cli = Cli(folder)
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.cli.environment |= {"TMPDIR": str(self.temporary), "BENCHKIT_HOST_LOCK": self.cli.mark}
        self.shared = set(os.listdir("/dev/shm"))

    def left_by(self, pid: int) -> Iterator[str]:
        """Yield what is left after the command has ended."""
        if not wait_until(lambda: not self.cli.processes()):
            yield f"processes {self.cli.processes()}"
        yield from (f"TMPDIR/{name}" for name in os.listdir(self.temporary))
        yield from (f"/dev/shm/{name}" for name in set(os.listdir("/dev/shm")) - self.shared)
        yield from (f"control group {path}" for path in Path("/sys/fs/cgroup").rglob(f"benchkit-{pid}*"))


def catches(pid: int, number: int) -> bool:
    """Return whether a process has a handler for SIGTERM; Python itself has none."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)
    return bool(caught >> (number - 1) & 1)


def end_at(place: Place, name: str, after_s: float, number: signal.Signals) -> tuple[str, list[str]]:
    """Send a signal to a command; return its outcome, and what is wrong with it."""
    module, arguments = COMMANDS[name]
    process = place.cli.start(*arguments, module=module, under=["setsid"])
    time.sleep(after_s)
    if ended := process.poll() is not None:
        begun = False
    else:
        begun = catches(process.pid, signal.SIGTERM)
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=300)
    code = process.returncode
    left = list(place.left_by(process.pid))
    if not begun:
        return "had ended" if ended else "before the first line", left
    wrong = [f"{word} in {(out + err)[-600:]}" for word in NEVER if word in out + err]
    if code not in (0, 128 + number):
        wrong.append(f"exit code {code}: {(out + err)[-300:]}")
    return f"exit code {code}", [*wrong, *left]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, ends, faults = random.Random(options.seed), Counter[tuple[str, str, str]](), 0
    takes_s: dict[str, float] = {}
    for moment in range(options.moments):
        name, number = list(COMMANDS)[moment % len(COMMANDS)], chance.choice(SIGNALS)
        with tempfile.TemporaryDirectory() as folder:
            place = Place(Path(folder))
            if name in NEED_RECORDS:
                assert place.cli(*SWEEP).returncode == 0
            if name not in takes_s:
                began_s = time.monotonic()
                place.cli(*COMMANDS[name][1], module=COMMANDS[name][0])
                takes_s[name] = time.monotonic() - began_s
            after_s = chance.uniform(0, takes_s[name])
            how, wrong = end_at(place, name, after_s, number)
        ends[name, number.name, how] += 1
        faults += bool(wrong)
        if wrong:
            print(f"{name}, {number.name} after {after_s:.3f} s, {how}: {'; '.join(wrong)}", flush=True)
    for (name, signal_name, how), count in sorted(ends.items()):
        print(f"{name:20} {signal_name:8} {how:24} {count:4}")
    met = sum(count for (*_, how), count in ends.items() if how.startswith("exit code"))
    print(f"{options.moments} moments, {met} of them between the first line and the end, {faults} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
