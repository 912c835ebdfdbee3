"""Shares of a GPU by NVIDIA's Multi-Process Service (docs.nvidia.com/deploy/mps).

A daemon that runs already is used; else one of our own, in folders of its own, is started and stopped, which needs no
root where the driver lets users. A process's share must be in its environment before it touches CUDA.
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
"""How long a daemon whose start was cut off may take to hear that it is to quit."""


class MpsUnavailable(Exception):
    """There is no MPS here, or it does not start."""


@contextmanager
def daemon(needed: bool, agents_here: int = 1) -> Iterator[dict[str, str]]:
    """An MPS daemon while this lasts, where one is needed; yields what its clients must have in their environment.

    agents_here: the agents on this host, this one among them. Raises MpsUnavailable.
    """
    if not needed:
        yield {}
        return
    if shutil.which(CONTROL) is None:
        raise MpsUnavailable(f"hardware.slowdown on GPUs needs {CONTROL}, which is not installed here")
    if ask(os.environ).returncode == 0:
        yield {name: os.environ[name] for name in ("CUDA_MPS_PIPE_DIRECTORY",) if name in os.environ}
        return
    if agents_here > 1:  # shares of a GPU are those of one daemon's clients
        how = f"start one daemon for all before ({CONTROL} -d), or one agent per host"
        raise MpsUnavailable(f"{agents_here} agents on this host need an MPS daemon, and none runs: {how}")
    quit_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix()}{os.getpid()}-"))
    try:
        start(folder)
        yield pipes(folder)
    finally:
        with defer_signals():
            stop(folder)


def prefix() -> str:
    """How the folders begin whose process numbers are of this kernel, and of this container."""
    return f"{PREFIX}{hashlib.sha256(namespace('pid').encode()).hexdigest()[:8]}-"


def pipes(folder: Path) -> dict[str, str]:
    """The environment of a daemon of our own, and of its clients."""
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}


def start(folder: Path) -> None:
    environment = {**os.environ, **pipes(folder)}
    started = run([CONTROL, "-d"], environment)
    if started.returncode or ask(environment).returncode:
        said = (started.stderr or started.stdout).strip().splitlines() or ["it does not answer"]
        raise MpsUnavailable(f"{CONTROL} -d: {said[-1]}")


def stop(folder: Path) -> None:
    """Tells the daemon there to quit, and removes its folder; says nothing where there is no daemon, or it hangs."""
    deadline = time.monotonic() + LISTENS_S
    with suppress(MpsUnavailable):  # what was measured counts, and so does a Ctrl-C
        while run([CONTROL], {**os.environ, **pipes(folder)}, "quit -t 1\n").returncode:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def quit_abandoned() -> None:
    """Stops the daemons of agents that were killed; whose one was is in its folder's name."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix()}[0-9]*-*"):
        if not Path("/proc", folder.name.removeprefix(prefix()).partition("-")[0]).exists():
            stop(folder)


def ask(environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Whether a daemon answers."""
    return run([CONTROL], environment, "get_server_list\n")


def run(command: list[str], environment: Mapping[str, str], text: str = "") -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            command, env=dict(environment), input=text, capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpsUnavailable(f"{command[0]}: {error}") from None


def share_environment(factor: float, ranks_per_device: int) -> dict[str, str]:
    """A process's share: of the part of a GPU that each of its ranks has, 1 / factor (in percent, at most 100)."""
    return {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{100 / ranks_per_device / factor:g}"}
