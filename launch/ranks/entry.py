"""Entry point of a rank: detach from the agent's terminal, run calls, report each result."""

import faulthandler
import fcntl
import importlib
import json
import logging
import os
import pickle
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn, TextIO

import msgspec

from launch.framing import REPORT_BYTES, MessageReader, add_length
from launch.ranks import logs
from launch.ranks.logs import shorten
from launch.ranks.private_network import PrivateNetwork
from launch.signals import ignore_signals

KEY = "note"
log = logging.getLogger(__name__)
log.propagate = False  # Notes are for handlers of this logger only.
_pipe: Connection | None = None


def set_report_pipe(pipe: Connection) -> None:
    global _pipe
    _pipe = pipe


def send_note(text: str) -> None:
    if _pipe:
        with suppress(OSError):  # The agent no longer reads the pipe.
            os.write(_pipe.fileno(), add_length(json.dumps({KEY: text}).encode()))


def log_note(text: object) -> None:
    log.debug("%s", text)


def encode_result(result: Any) -> bytes:
    """Encode a result as JSON; raise TypeError if it cannot be read back, or is too long."""
    try:
        require_json(result)
        content = msgspec.json.encode(result)
        msgspec.json.decode(content, type=type(result))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"result cannot be stored: {error}") from None
    report = msgspec.json.encode({"result": msgspec.Raw(content)})
    if len(report) > REPORT_BYTES:
        raise TypeError(f"result cannot be stored: {len(report)} bytes; allowed are {REPORT_BYTES}")
    return report


def require_json(value: Any, path: str = "$") -> None:
    """Raise TypeError unless a value and everything inside it is a JSON value.

    msgspec converts others: a set to a list, bytes to base64, a numeric key to text; and it writes
    integers of any length, which most readers round.
    """
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path}: the key {key!r}; allowed is text")
            require_json(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if type(item) is not float:  # most values are samples
                require_json(item, f"{path}[{index}]")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise TypeError(f"{path}: {value}; allowed are integers of 64 bits")
    elif not isinstance(value, str | float | None):
        raise TypeError(f"{path}: JSON has no {type(value).__name__}")


def encode_exception(error: BaseException, raised_at: float) -> bytes:
    """Encode an exception as JSON, truncated to the message limit.

    `raised_at` is by time.monotonic().
    """
    try:
        message = str(error)
    except Exception:  # the __str__ of the exception fails
        message = ""
    texts = {
        "message": message or type(error).__name__,
        "type": type(error).__qualname__,
        "traceback": "".join(traceback.format_exception(error)),
    }
    storable: dict[str, object] = {"raised_at": raised_at}
    for name, text in texts.items():
        storable[name] = shorten(text).encode(errors="backslashreplace").decode()
    return msgspec.json.encode({"exception": storable})


RENDEZVOUS_FILE_VARIABLE = "BENCHKIT_MEETING_FILE"
"""Environment variable: path of the FileStore through which ranks on one host rendezvous."""


@dataclass(frozen=True)
class RankCall:
    """A call for one rank: `target` is "module:function", `argument` is pickled."""

    target: str
    argument: bytes
    log: Path


def rank_main(
    environment: dict[str, str],
    network: PrivateNetwork | None,
    task_pipe: Connection,
    report_pipe: Connection,
    lifeline: Connection,
) -> None:
    """Run calls in this process and report the result of each, until one raises.

    Args:
        network: the network to enter, or None for the host's.
        task_pipe: pipe of calls; the process exits at its end of file.
        report_pipe: pipe for the reports to the agent.
        lifeline: pipe whose end of file, when the agent exits, kills this process.
    """
    set_report_pipe(report_pipe)
    try:
        detach_process()
        die_with(lifeline)
    except OSError as error:
        calls = "setsid, F_SETOWN, F_SETSIG"
        report_and_exit(
            OSError(f"the kernel refuses what ends ranks with their agent ({calls}): {error}")
        )
    os.environ.update(environment)
    incoming = MessageReader(task_pipe)
    is_first = True
    while call := next_call(incoming):
        redirect_output(call.log)
        try:
            if is_first:
                set_up_process(network)
                is_first = False
            report, code = encode_result(run_task(call)), 0
        except BaseException as error:
            raised_at = time.monotonic()
            with suppress(OSError):  # The log cannot be written; the report has the same text.
                traceback.print_exc()
            report, code = encode_exception(error, raised_at), 1
        flush_output()
        with suppress(OSError):  # The agent no longer reads the pipe.
            send(report_pipe, report)
        if code:
            exit_now(code)
    exit_now(0)


def report_and_exit(error: BaseException) -> NoReturn:
    """Report an exception found by a watchdog thread, and exit.

    The main thread may be blocked forever.
    """
    if _pipe:
        with suppress(OSError):
            send(_pipe, encode_exception(error, time.monotonic()))
    exit_now(1)


def next_call(incoming: MessageReader) -> RankCall | None:
    try:
        call: RankCall = pickle.loads(incoming.read_message(REPORT_BYTES) or b"")
    except EOFError:
        return None
    return call


def set_up_process(network: PrivateNetwork | None) -> None:
    """Set up this process once, before its first call and its first thread."""
    sys.stdout, sys.stderr = open_line_buffered(1), open_line_buffered(2)
    faulthandler.enable()
    logs.install_stack_dumper()
    keep_file_open(RENDEZVOUS_FILE_VARIABLE)
    if network:
        network.enter()


def run_task(call: RankCall) -> object:
    module, function = call.target.split(":")
    return getattr(importlib.import_module(module), function)(pickle.loads(call.argument))


def keep_file_open(variable: str) -> None:
    """Open the file in an environment variable, and set the variable to the open descriptor."""
    path = os.environ.get(variable)
    if path:
        os.environ[variable] = f"/proc/self/fd/{os.open(path, os.O_RDWR)}"


def send(pipe: Connection, report: bytes) -> None:
    rest = memoryview(add_length(report))
    while rest:
        rest = rest[os.write(pipe.fileno(), rest) :]


def detach_process() -> None:
    """Move this process to its own session, ignore signals and volunteer for the OOM killer.

    The agent handles the signals. Slurm signals all processes of a job, and a rank killed by that
    would look like a crash.
    """
    os.setsid()
    ignore_signals()
    with suppress(OSError):  # Linux only
        Path("/proc/self/oom_score_adj").write_text("1000")


def die_with(lifeline: Connection) -> None:
    """Kill this process when the agent exits, by a signal on the lifeline's end of file.

    The agent holds the other end of `lifeline` and never writes to it. The signal is SIGKILL on
    Linux, elsewhere SIGIO, which terminates. PR_SET_PDEATHSIG does not work: the parent is the fork
    server, which outlives the agent because its children hold its pipe.

    The signal goes to the process group, with the children of this process. A child in its own
    session is killed after the point (launch.ranks.fork_server), but survives if the agent is
    killed by SIGKILL.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid())  # One owner per pipe: a pipe per rank.
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if lifeline.poll():  # The agent has exited before.
        exit_now(1)


def redirect_output(path: Path) -> None:
    """Redirect output, also of C libraries, to a file; discard it if that cannot be opened."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o644)
    except OSError:  # a full disk, which the agent reports once
        descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def open_line_buffered(descriptor: int) -> TextIO:
    """Return a line-buffered text stream that does not close its descriptor.

    Text that UTF-8 cannot encode is escaped, so that a rank can always report why it fails.
    """
    return os.fdopen(descriptor, "w", buffering=1, errors="backslashreplace", closefd=False)


def exit_now(code: int) -> NoReturn:
    """Exit at once: the teardown of torch's threads is slow and may hang."""
    flush_output()
    os._exit(code)


def flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
