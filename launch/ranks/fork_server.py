"""The fork server that forks ranks: started once, monitored, and replaced on a timeout.

multiprocessing has no public handle for it. All that relies on multiprocessing's internals is in
this file; tests/unit/launch/ranks/test_fork_server.py pins them.
"""

import logging
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker, util
from pathlib import Path

from launch.host import hide_pinning
from launch.module_path import path_in_environment
from launch.signals import defer_signals

ANSWER_S = 30.0
"""Time limit to fork all ranks of a point, once the server has forked before."""
LOAD_S = 300.0
"""Time limit of a fresh server, which first imports torch, perhaps from a network file system."""
DEATH_S = 5.0
GONE_S = 0.5
"""Delay of the kernel between closing a dead process's files and reporting its exit, at most."""
FOLDER_VARIABLE = "BENCHKIT_FORK_SERVER_FOLDER"
LOST_EXIT_CODE = 255
"""Exit code that multiprocessing assigns to a process whose fork server has died."""
FEWEST_FILES = 64
"""Required limit of open files: an agent of two ranks opens about 30, and more per rank."""
OWN_PRELOAD = ("launch.ranks.reaper", "launch.ranks.entry")
SOCKET_NAME_BYTES = 107
log = logging.getLogger(__name__)
_warm_server_pid: list[int] = []
"""The pid of the fork server if it has forked ranks before.

It is process-wide, as multiprocessing's fork server is.
"""


def start_fork_server(preload: Sequence[str] = ()) -> None:
    """Start the fork server, unless it runs; it imports `preload` in the background.

    These modules must start no thread and touch no GPU. Raise OSError if TMPDIR takes no socket, or
    if the limit of open files is too low.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= limit < FEWEST_FILES:
        raise OSError(f"ulimit -n {limit}: allowed are at least {FEWEST_FILES} open files")
    multiprocessing.get_context("forkserver").set_forkserver_preload([*OWN_PRELOAD, *preload])
    try:
        # The resource tracker unblocks signals when it starts, so it must start first.
        resource_tracker.ensure_running()
        # The server and its ranks inherit blocked signals: stop requests are not for them.
        # The server finds modules by its environment only: before Python 3.13.1 it drops our
        # sys.path (cpython #117378).
        with defer_signals(), path_in_environment(), export_cleanup_folder(), hide_pinning():
            forkserver.ensure_running()
    except OSError as error:
        if "AF_UNIX path too long" in str(error):
            error = OSError(f"its socket's name is too long, {SOCKET_NAME_BYTES} bytes")
        raise OSError(
            f"the fork server does not start with TMPDIR={tempfile.gettempdir()}: {error}; allowed "
            "is a folder that takes sockets, such as TMPDIR=/tmp, or start_method=spawn"
        ) from None


@contextmanager
def export_cleanup_folder() -> Iterator[None]:
    """Export to the fork server the folder that it removes if this process is killed."""
    os.environ[FOLDER_VARIABLE] = util.get_temp_dir()  # of the server's socket
    try:
        yield
    finally:
        del os.environ[FOLDER_VARIABLE]


def server_pid() -> int | None:
    server: int | None = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return server


def exits_soon() -> bool:
    deadline = time.monotonic() + GONE_S
    server = server_pid()
    while server is not None and time.monotonic() < deadline:
        if has_ended(server):
            return True
        time.sleep(0.01)
    return False


def has_ended(server: int) -> bool:
    """Return whether the server has exited, without reaping it (WNOWAIT).

    multiprocessing reaps it, and then starts another.
    """
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    return False


def kill_server() -> None:
    server = server_pid()
    if server is None:
        return
    kill_children(exclude=())
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(server, signal.SIGKILL)
        # multiprocessing reaps the server, and then starts another.
        os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)


@contextmanager
def limit_request_time() -> Iterator[None]:
    """Kill the fork server if a request in this context takes too long.

    Raise TimeoutError then, and ConnectionError where another process killed it.
    """
    server = server_pid()
    has_timed_out = threading.Event()
    limit_s = ANSWER_S if server in _warm_server_pid and not has_ended(server) else LOAD_S

    def give_up() -> None:
        has_timed_out.set()
        kill_server()

    watchdog = threading.Timer(limit_s, give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    except (EOFError, OSError):
        if not has_timed_out.is_set() and exits_soon():
            raise ConnectionError("the fork server was killed while it started ranks") from None
        if not has_timed_out.is_set():
            raise
        watchdog.join()  # The next caller must not take a dying server for a live one.
        raise TimeoutError(f"the fork server did not answer within {limit_s:g} s") from None
    finally:
        watchdog.cancel()
    _warm_server_pid[:] = [server] if server else []


def kill_orphans() -> None:
    """Kill processes that ranks have left behind in their own sessions, and their children."""
    kill_children(exclude={process.pid for process in multiprocessing.active_children()})


def kill_children(exclude: Collection[int | None]) -> None:
    """Kill the fork server's children except `exclude`, and orphans that it inherits meanwhile."""
    deadline = time.monotonic() + DEATH_S
    while remaining := [
        child for child in child_pids() if child not in exclude and not is_dead(child)
    ]:
        if time.monotonic() > deadline:
            log.warning("processes %s that a rank has started do not end; left behind", remaining)
            return
        for child in remaining:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.001)


def child_pids() -> list[int]:
    pids = []
    with suppress(OSError):
        for task in Path(f"/proc/{server_pid()}/task").iterdir():
            pids += [int(child) for child in (task / "children").read_text().split()]
    return pids


def is_dead(child: int) -> bool:
    try:
        return Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
