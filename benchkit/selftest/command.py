"""python -m benchkit selftest: what this machine can tell, on one page, and its noise floor."""

import argparse
import datetime
import math
import os
import sys
import tempfile
from pathlib import Path

from benchkit.record.record import Record
from benchkit.selftest import quantum, runs
from benchkit.selftest.floor import (
    Fingerprint,
    fingerprint,
    machine_floor,
    read,
    state_folder,
    store,
)
from benchkit.selftest.page import Findings, render
from benchkit.selftest.runs import SelftestFailed, Setting
from launch.agents.host_lock import HostLock, HostTaken
from launch.topology import LaunchError, allocation_remark, require_launcher

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
BACKENDS = ("gloo", "nccl", "ucc", "mpi")
SECONDS = 60.0
HOST_WAIT_S = 3600.0


def main(arguments: list[str]) -> int:
    """Runs the selftest; returns 0, 1 where a part failed, 2 where an argument is wrong."""
    options = parser().parse_args(arguments)
    folder = options.dir or state_folder()
    if problem := refusal(options.ranks, options.seconds, folder):
        say(problem)
        return EXIT_USAGE
    if remark := allocation_remark():
        say(remark)
    try:
        read(folder)
    except ValueError as error:
        say(f"{error}; it is replaced")
    with tempfile.TemporaryDirectory(prefix="benchkit-selftest-") as place:
        setting = Setting(options.backend, options.ranks, options.seconds, Path(place))
        try:
            found = measured(setting)
        except (SelftestFailed, HostTaken, OSError, ValueError) as error:
            say(f"not measured: {error}")
            return EXIT_FAILED
    written_at = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    floor = machine_floor(found.found_on, [each.floor() for each in found.runs], written_at)
    print(render(found))
    try:
        path = store(floor, folder)
    except OSError as error:
        say(f"noise floor not written: {error}")
        return EXIT_FAILED
    print(f"\nnoise floor {floor.id} in {path}; it applies for 30 days")
    return EXIT_OK


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m benchkit selftest", description=__doc__)
    made.add_argument("--backend", choices=BACKENDS, default="gloo", help="default: gloo")
    made.add_argument("--ranks", type=int, default=2, help="default: 2")
    made.add_argument("--dir", type=Path, help=f"of noise_floor.json; default: {state_folder()}")
    made.add_argument("--seconds", type=float, default=SECONDS, help=argparse.SUPPRESS)
    return made


def refusal(ranks: int, seconds: float, folder: Path) -> str:
    """Returns why the selftest cannot begin, in one line; "" if it can."""
    try:
        started = require_launcher()
    except LaunchError as error:
        return str(error)
    if started.count > 1:
        return (
            f"{started.by} started {started.count} processes; allowed is one, it starts the ranks"
        )
    if ranks < 1:
        return f"--ranks {ranks}: allowed is >= 1"
    if not (math.isfinite(seconds) and seconds > 0):
        return f"--seconds {seconds}: allowed is > 0"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{folder}: {error.strerror}; choose another by --dir"
    return "" if os.access(folder, os.W_OK) else f"{folder}: not writable; choose another by --dir"


def measured(setting: Setting) -> Findings:
    """Runs all parts, one after another; each has the host to itself."""
    lock = HostLock()
    lock.acquire(lambda holder: say(f"waits for {holder}"), limit=lambda holder: HOST_WAIT_S)
    try:
        say(f"cores, about {setting.seconds / 12:.2g} s")
        noise = quantum.measure_cores(setting.seconds / 12)
    finally:
        lock.release()
    say(f"{setting.num_runs} identical runs of each size, in fresh processes")
    records = runs.repeat(setting)
    return Findings(found_on(records[0]), noise, runs.group_runs(records))


def found_on(record: Record) -> Fingerprint:
    """Returns the fingerprint of a record's machine and settings."""
    settings = record.settings
    return fingerprint(
        record.environment,
        record.world_size,
        record.threads_per_rank,
        settings.backend.name,
        settings.hardware.device,
    )


def say(message: str) -> None:
    """Prints a line to standard error; the page alone goes to standard output."""
    print(f"benchkit selftest: {message}", file=sys.stderr, flush=True)
