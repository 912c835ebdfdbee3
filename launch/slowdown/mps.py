"""GPU shares by NVIDIA's Multi-Process Service (docs.nvidia.com/deploy/mps)."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from launch.signals import defer_signals

CONTROL = "nvidia-cuda-mps-control"
PREFIX = "benchkit-mps-"
ANSWER_S = 10.0
LISTENS_S = 2.0
"""Time limit for a daemon to answer after its start, or to receive the order to quit."""
POLL_S = 0.05
SOCKET_NAME_BYTES = 107
LONGEST_SOCKET = "control_privileged"
DEVICES = "CUDA_VISIBLE_DEVICES"
SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
NOT_FOR_DAEMON = (DEVICES, SHARE)
"""Variables that a daemon does not inherit.

The daemon would number the visible GPUs differently than its clients do, and limit all shares.
"""


class MpsUnavailable(Exception): ...


def make_pipe_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    if len(os.fsencode(folder / LONGEST_SOCKET)) > SOCKET_NAME_BYTES:
        folder.rmdir()
        raise MpsUnavailable(
            f"TMPDIR={tempfile.gettempdir()} is too long for the sockets of MPS "
            f"({SOCKET_NAME_BYTES} bytes); allowed is e.g. TMPDIR=/tmp"
        )
    return folder


def client_environment(folder: Path) -> dict[str, str]:
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}


def daemon_environment(folder: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_FOR_DAEMON}
    return inherited | client_environment(folder)


def start_daemon(folder: Path, devices: Mapping[str, str]) -> None:
    """Start a daemon with its pipes and logs in a folder; raise MpsUnavailable where that fails.

    `devices` chooses its GPUs by UUID. A MIG instance must be chosen by name; by default the daemon
    serves all whole GPUs of the host.
    """
    environment = {**daemon_environment(folder), **devices}
    log = folder / "start.log"  # a file: the daemon would keep a pipe open
    with log.open("w") as output:
        process = run([CONTROL, "-d"], environment, output=output.fileno())
    deadline = time.monotonic() + LISTENS_S
    while process.returncode or query_servers(environment).returncode:
        if process.returncode or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise MpsUnavailable(f"{CONTROL} -d: {lines[-1] if lines else 'it does not answer'}")
        time.sleep(POLL_S)


def stop_daemon(folder: Path) -> None:
    """Stop the daemon of a folder, if any, and remove the folder; ignore a hung daemon."""
    environment = daemon_environment(folder)
    deadline = time.monotonic() + LISTENS_S
    with suppress(MpsUnavailable):  # an error must hide neither results nor a Ctrl-C
        while run([CONTROL], environment, "quit -t 1\n").returncode:
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
    shutil.rmtree(folder, ignore_errors=True)


OUTLIVES = """read -r _
for _ in 1 2 3 4; do echo quit -t 1 | "$0" && break; sleep 0.5; done
rm -rf "$1"
"""
"""Shell script: wait for end of input, stop the daemon, remove its folder."""


@contextmanager
def stop_with_process(folder: Path) -> Iterator[None]:
    """Stop the daemon of a folder even if this process is killed in this context.

    A watchdog in its own session reads a pipe whose only writer is this process.
    """
    watchdog = subprocess.Popen(
        ["sh", "-c", OUTLIVES, CONTROL, str(folder)],
        env=daemon_environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with watchdog:
        try:
            yield
        finally:
            watchdog.kill()


def terminate_client(pid: int, environment: Mapping[str, str]) -> None:
    """Terminate a client and its kernels by the daemon; after SIGKILL they may stay on the GPU.

    Without an answer, or for an unknown client, nothing is terminated. `environment` has the
    client's variables beyond those of this process.
    """
    merged = {**os.environ, **environment}
    with suppress(MpsUnavailable):
        for server in re.findall(r"\d+", query_servers(merged).stdout):
            run([CONTROL], merged, f"terminate_client {server} {pid}\n")


def query_servers(environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Query a daemon for its servers; the exit code is 0 if it answers."""
    return run([CONTROL], environment, "get_server_list\n")


def run(
    command: list[str],
    environment: Mapping[str, str],
    text: str = "",
    output: int = subprocess.PIPE,
) -> "subprocess.CompletedProcess[str]":
    """Run a command; raise MpsUnavailable if it does not start, or not end within ANSWER_S."""
    try:
        return subprocess.run(
            command,
            env=dict(environment),
            input=text,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpsUnavailable(f"{command[0]}: {error}") from None


@contextmanager
def provide_daemon(
    needed: bool, gpus: Sequence[str] = (), agents_here: int = 1
) -> Iterator[dict[str, str]]:
    """Provide an MPS daemon in this context if needed; yield the environment of its clients.

    Args:
        gpus: GPUs of the clients, in their order, by UUID where known.
        agents_here: number of agents on this host, including this one.

    Raise MpsUnavailable without MPS, or if several agents on this host would each start a daemon.
    """
    if not needed:
        yield {}
        return
    if shutil.which(CONTROL) is None:
        raise MpsUnavailable(
            f"hardware.slowdown on GPUs needs {CONTROL}, which is not installed here"
        )
    devices = device_environment(gpus)
    if query_servers(os.environ).returncode == 0:
        names = ("CUDA_MPS_PIPE_DIRECTORY",)
        yield {name: os.environ[name] for name in names if name in os.environ} | devices
        return
    if agents_here > 1:  # the clients that share a GPU must be those of one daemon
        advice = f"start one daemon for all before ({CONTROL} -d), or one agent per host"
        raise MpsUnavailable(
            f"{agents_here} agents on this host need an MPS daemon, and none runs: {advice}"
        )
    folder = make_pipe_folder()
    try:
        with stop_with_process(folder):
            start_daemon(folder, devices)
            yield client_environment(folder) | devices
    finally:
        with defer_signals():
            stop_daemon(folder)


def device_environment(gpus: Sequence[str]) -> dict[str, str]:
    """Return the environment that makes these GPUs visible, in order, to clients and their daemon.

    It is empty without UUIDs: a daemon and its clients number GPUs differently.
    """
    has_uuids = gpus and all(re.match("(GPU|MIG)-", gpu) for gpu in gpus)
    return {DEVICES: ",".join(gpus)} if has_uuids else {}


def share_environment(percent: float) -> dict[str, str]:
    return {SHARE: f"{percent:g}"}
