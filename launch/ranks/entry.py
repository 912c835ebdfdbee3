"""The first lines of a rank's life: apart from its parent's terminal, sure to die with it, its output in a file.

Imports nothing heavy, and `argument` travels pickled, so that under `spawn` the environment is set before any library
reads it. Under `forkserver` torch is loaded already: what it reads on loading is as the agent's environment has it.
"""

import faulthandler
import fcntl
import importlib
import os
import pickle
import signal
import sys
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson

from launch.framing import REPORT_BYTES, framed
from launch.ranks import stack_dump
from launch.ranks.logs import shorten
from launch.ranks.private_network import PrivateNetwork
from launch.signals import ignore_signals

MEETING_FILE = "BENCHKIT_MEETING_FILE"
"""Environment variable: the file in which ranks on one host meet, as this rank has it open."""


def rank_main(
    target: str,
    argument: bytes,
    environment: dict[str, str],
    log: Path,
    network: PrivateNetwork | None,
    pipe: Connection,
    lifeline: Connection,
) -> None:
    """Runs "module:function" with the pickled `argument` and reports its result or its exception through `pipe`."""
    isolate()
    die_with(lifeline)
    os.environ.update(environment)
    redirect_output(log)
    faulthandler.enable()
    stack_dump.install()
    try:
        keep_open(MEETING_FILE)
        if network:
            network.enter()  # before anything starts a thread
        module, function = target.split(":")
        result = getattr(importlib.import_module(module), function)(pickle.loads(argument))
        report, code = as_json(result), 0
    except BaseException as error:
        raised_at = time.monotonic()
        traceback.print_exc()
        report, code = exception_report(error, raised_at), 1
    with suppress(OSError):  # the agent has given this rank up
        send(pipe, report)
    leave(code)


def keep_open(variable: str) -> None:
    """Opens the file that an environment variable names, and makes it name the open file."""
    if path := os.environ.get(variable):
        os.environ[variable] = f"/proc/self/fd/{os.open(path, os.O_RDWR)}"


def as_json(result: Any) -> bytes:
    """The report of a result. Raises TypeError where JSON has no such value, or it is too long."""
    try:
        report = orjson.dumps({"result": result})
    except TypeError as error:
        raise TypeError(f"result cannot be stored: {error}") from None
    if len(report) > REPORT_BYTES:
        raise TypeError(f"result cannot be stored: {len(report)} bytes; allowed are {REPORT_BYTES}")
    return report


def exception_report(error: BaseException, raised_at: float) -> bytes:
    """The report of an exception, shortened: the agents send it on, and the record keeps it."""
    try:
        message = str(error)
    except Exception:  # its own __str__ fails
        message = ""
    texts = {
        "message": message or type(error).__name__,
        "type": type(error).__qualname__,
        "traceback": traceback.format_exc(),
    }
    storable: dict[str, Any] = {"raised_at": raised_at}
    for name, text in texts.items():
        storable[name] = shorten(text).encode(errors="backslashreplace").decode()
    return orjson.dumps({"exception": storable})


def send(pipe: Connection, report: bytes) -> None:
    """Writes a whole report; the agent reads it piece by piece."""
    rest = memoryview(framed(report))
    while rest:
        rest = rest[os.write(pipe.fileno(), rest) :]


def isolate() -> None:
    """A process group of its own, deaf to what is the agent's to handle, and the OOM killer's first choice.

    Slurm sends a signal to all processes of a job: a rank that died of it would look like a crash.
    """
    os.setsid()
    ignore_signals()
    with suppress(OSError):  # Linux only
        Path("/proc/self/oom_score_adj").write_text("1000")


def die_with(lifeline: Connection) -> None:
    """Lets the kernel end this process when the agent, which holds the other end and never writes, is gone.

    PR_SET_PDEATHSIG would not do: the parent is the fork server, which lives as long as its children do, because
    they hold its pipe. So the pipe's end of file raises a signal: SIGKILL on Linux, elsewhere SIGIO, which terminates.
    It goes to the process group, and so to all that this process has started. What has made a
    session of its own ends after the point (launch.ranks.fork_server), but lives on where the agent is
    killed by SIGKILL.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())  # one owner per pipe: hence a pipe per rank
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if lifeline.poll():  # it went before we listened
        leave(1)


def redirect_output(path: Path) -> None:
    """Sends standard output and error, those of C libraries too, to a file; nowhere where it cannot be written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:  # a full disk: the agent will say so, and not each rank
        descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    # a text that UTF-8 lacks must not keep a rank from telling why it fails
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def leave(code: int) -> None:
    """Ends the process at once: interpreter teardown of torch's threads takes time and may hang."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
