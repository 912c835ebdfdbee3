"""Shares of a GPU by NVIDIA's Multi-Process Service (docs.nvidia.com/deploy/mps).

A daemon that runs already is used; else one of our own, in folders of its own, is started and stopped, which needs no
root where the driver lets users. A process's share must be in its environment before it touches CUDA.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

CONTROL = "nvidia-cuda-mps-control"
ANSWER_S = 10.0


class MpsUnavailable(Exception):
    """There is no MPS here, or it does not start."""


@contextmanager
def daemon(needed: bool) -> Iterator[dict[str, str]]:
    """An MPS daemon while this lasts, where one is needed; yields what its clients must have in their environment.

    Raises MpsUnavailable.
    """
    if not needed:
        yield {}
        return
    if shutil.which(CONTROL) is None:
        raise MpsUnavailable(f"hardware.slowdown on GPUs needs {CONTROL}, which is not installed here")
    if ask(os.environ).returncode == 0:
        yield {name: os.environ[name] for name in ("CUDA_MPS_PIPE_DIRECTORY",) if name in os.environ}
        return
    with tempfile.TemporaryDirectory(prefix="benchkit-mps-", ignore_cleanup_errors=True) as folder:
        own = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        environment = {**os.environ, **own}
        started = run([CONTROL, "-d"], environment)
        try:
            if started.returncode or ask(environment).returncode:
                said = (started.stderr or started.stdout).strip().splitlines() or ["it does not answer"]
                raise MpsUnavailable(f"{CONTROL} -d: {said[-1]}")
            yield own
        finally:
            with suppress(MpsUnavailable):  # what was measured counts, and so does a Ctrl-C
                run([CONTROL], environment, "quit -t 1\n")


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
