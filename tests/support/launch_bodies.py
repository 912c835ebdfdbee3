"""What ranks do in the tests of launch: no torch, so that each test takes milliseconds."""

import os
import sys
import time
from pathlib import Path

from launch import ranks


def identity(argument):
    print("out", argument)
    print("err", argument, file=sys.stderr)
    return argument, os.environ.get("MINE"), os.getpid(), os.getpgid(0)


def raise_second(argument):
    """Rank 1 raises; rank 0 raises a little later, as one whose peer is gone does."""
    time.sleep(0.3 if argument == 0 else 0.0)
    raise ValueError(f"rank {argument}")


def exit_silently(argument):
    if argument == 1:
        os._exit(0)
    return argument


def grandchild(argument):
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
    if argument == 1:
        raise ValueError(str(pid))
    time.sleep(60)


def large(argument):
    return "x" * 5_000_000


def sleep(argument):
    """Says under which number it runs, beside its log."""
    log = Path(os.readlink("/proc/self/fd/1"))
    log.with_suffix(".pid.part").write_text(str(os.getpid()))
    log.with_suffix(".pid.part").rename(log.with_suffix(".pid"))
    time.sleep(60)


class SeesItsEnvironment:
    """Remembers what the environment held when it was unpickled."""

    def __reduce__(self):
        return os.getenv, ("MINE",)


def given(argument):
    return argument


def run(body, folder: Path, count=2, timeout_s=120.0, start_method="forkserver", environments=None):
    return ranks.run_ranks(
        f"tests.support.launch_bodies:{body}",
        list(range(count)),
        environments=environments or [{"MINE": str(rank)} for rank in range(count)],
        folder=folder,
        timeout_s=timeout_s,
        start_method=start_method,
    )


def pids_in(folder: Path) -> list[int]:
    """The ranks that have begun to sleep."""
    return [int(path.read_text()) for path in folder.glob("rank_*.pid")]


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


if __name__ == "__main__":  # an agent of four ranks, to be killed: FOLDER START_METHOD
    run("sleep", Path(sys.argv[1]), count=4, start_method=sys.argv[2])
