"""Shares of a GPU by NVIDIA's Multi-Process Service (docs.nvidia.com/deploy/mps).

A daemon that already runs is used. Otherwise benchkit starts and stops its own in a separate
folder, which needs no root if the driver lets users do so. A process must have its share in its
environment before it touches CUDA.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from launch.signals import defer_signals
from launch.topology import namespace

CONTROL = "nvidia-cuda-mps-control"
PREFIX = "benchkit-mps-"
ANSWER_S = 10.0
LISTENS_S = 1.0
"""How long a daemon whose start was interrupted may take until it receives the order to quit."""


class MpsUnavailable(Exception):
    """There is no MPS here, or it does not start."""


@contextmanager
def daemon(needed: bool, agents_here: int = 1) -> Iterator[dict[str, str]]:
    """Provides an MPS daemon while the context lasts; yields the environment of its clients.

    Args:
        needed: whether a daemon is needed; otherwise the environment is empty.
        agents_here: number of agents on this host, including this one.

    Raises:
        MpsUnavailable: there is no MPS here, it does not start, or several agents on this host
            would each start a daemon.
    """
    if not needed:
        yield {}
        return
    if shutil.which(CONTROL) is None:
        raise MpsUnavailable(
            f"hardware.slowdown on GPUs needs {CONTROL}, which is not installed here"
        )
    if ask(os.environ).returncode == 0:
        names = ("CUDA_MPS_PIPE_DIRECTORY",)
        yield {name: os.environ[name] for name in names if name in os.environ}
        return
    if agents_here > 1:  # the clients that share a GPU must be those of one daemon
        how = f"start one daemon for all before ({CONTROL} -d), or one agent per host"
        raise MpsUnavailable(
            f"{agents_here} agents on this host need an MPS daemon, and none runs: {how}"
        )
    quit_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix()}{os.getpid()}-"))
    try:
        start(folder)
        yield pipes(folder)
    finally:
        with defer_signals():
            stop(folder)


def prefix() -> str:
    """Returns the start of the folders' names, unique to this kernel and container.

    The process numbers that follow it belong to the same PID namespace.
    """
    return f"{PREFIX}{hashlib.sha256(namespace('pid').encode()).hexdigest()[:8]}-"


def pipes(folder: Path) -> dict[str, str]:
    """Returns the environment of a daemon of our own and of its clients."""
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}


def start(folder: Path) -> None:
    """Starts a daemon with its pipes and logs in a folder.

    Raises:
        MpsUnavailable: it does not start, or does not answer.
    """
    environment = {**os.environ, **pipes(folder)}
    started = run([CONTROL, "-d"], environment)
    if started.returncode or ask(environment).returncode:
        lines = (started.stderr or started.stdout).strip().splitlines()
        raise MpsUnavailable(f"{CONTROL} -d: {lines[-1] if lines else 'it does not answer'}")


def stop(folder: Path) -> None:
    """Tells the daemon of a folder to quit and removes the folder.

    No error is raised if there is no daemon, or if it hangs.
    """
    environment = {**os.environ, **pipes(folder)}
    deadline = time.monotonic() + LISTENS_S
    with suppress(MpsUnavailable):  # an error must hide neither results nor a Ctrl-C
        while run([CONTROL], environment, "quit -t 1\n").returncode:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def quit_abandoned() -> None:
    """Stops the daemons of agents that were killed; a folder's name holds its agent's pid."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix()}[0-9]*-*"):
        pid = folder.name.removeprefix(prefix()).partition("-")[0]
        if not Path("/proc", pid).exists():
            stop(folder)


def ask(environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Asks a daemon for its servers; the exit code is 0 if one answers."""
    return run([CONTROL], environment, "get_server_list\n")


def run(
    command: list[str], environment: Mapping[str, str], text: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Runs a command with `text` on its standard input.

    Raises:
        MpsUnavailable: it does not start, or does not end within ANSWER_S.
    """
    try:
        return subprocess.run(
            command,
            env=dict(environment),
            input=text,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpsUnavailable(f"{command[0]}: {error}") from None


def share_environment(factor: float, ranks_per_device: int) -> dict[str, str]:
    """Returns the environment that gives a process its share of a GPU.

    The share is 1 / factor of the part that each rank of the GPU has, in percent, at most 100.
    """
    return {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{100 / ranks_per_device / factor:g}"}
