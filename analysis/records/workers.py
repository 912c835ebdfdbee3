"""Derives the figures of many records in several processes.

Each is a fresh interpreter that loads neither pandas nor matplotlib. `multiprocessing` would import
the main module of this process in each of them, or copy a process that has threads.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from pathlib import Path

import msgspec

from analysis.records.derive import Derived, derive

FEWEST_BYTES = 50 * 10**6
"""Fewer bytes of records are read in this process: starting others takes longer."""
MOST_PROCESSES = 8

Job = tuple[str, bytes]
"""The arguments of `derive`: a path, and the digest of the content that is known."""
decode = msgspec.msgpack.Decoder(list[Derived | None]).decode


def usable_processes() -> int:
    """Return how many processes can run at once on the cores of this process."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def derive_all(jobs: Sequence[Job], num_bytes: int, processes: int) -> list[Derived | None]:
    """Derive the figures of several files.

    Args:
        jobs: one per file.
        num_bytes: in all files.
        processes: the most that may run at once.

    Returns:
        What `derive` returns for each job.
    """
    if processes < 2 or num_bytes < FEWEST_BYTES:
        return [derive(*job) for job in jobs]
    shares = [jobs[start::processes] for start in range(processes)]
    with ThreadPoolExecutor(processes) as threads:
        found = list(threads.map(derive_elsewhere, shares))
    # Every n-th job is of one share; the first shares may be longer by one.
    rounds = chain.from_iterable(zip_longest(*found))
    return [derived for derived, _ in zip(rounds, jobs, strict=False)]


def derive_elsewhere(jobs: Sequence[Job]) -> list[Derived | None]:
    """Derive figures in another process; in this one where that fails."""
    content = msgspec.msgpack.encode([(os.fsencode(path), digest) for path, digest in jobs])
    command = [sys.executable, "-m", "analysis.records.workers"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            command,
            input=content,
            stdout=subprocess.PIPE,
            check=True,
            env=environment,
            cwd=Path(__file__).parents[2],  # where no folder of the user is named analysis
        )
        return decode(done.stdout)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return [derive(*job) for job in jobs]


def main() -> None:
    """Derive the figures of the files that stdin names, onto stdout."""
    jobs = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[tuple[bytes, bytes]])
    found = [derive(os.fsdecode(path), digest) for path, digest in jobs]
    sys.stdout.buffer.write(msgspec.msgpack.encode(found))


if __name__ == "__main__":
    main()
