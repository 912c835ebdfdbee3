"""Shares of a GPU by NVIDIA's Multi-Process Service (docs.nvidia.com/deploy/mps).

A daemon that already runs is used. Otherwise benchkit starts and stops its own in a separate
folder, which needs no root if the driver lets users do so. A process must have its share in its
environment before it touches CUDA.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from launch.signals import defer_signals
from launch.slowdown import mps_control
from launch.slowdown.mps_control import CONTROL, DEVICES, MpsUnavailable


@contextmanager
def daemon(
    needed: bool, gpus: Sequence[str] = (), agents_here: int = 1
) -> Iterator[dict[str, str]]:
    """Provides an MPS daemon while the context lasts; yields the environment of its clients.

    Args:
        needed: whether a daemon is needed; otherwise the environment is empty.
        gpus: that the clients use, in their order, by UUID where known.
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
    devices = device_environment(gpus)
    if mps_control.ask(os.environ).returncode == 0:
        names = ("CUDA_MPS_PIPE_DIRECTORY",)
        yield {name: os.environ[name] for name in names if name in os.environ} | devices
        return
    if agents_here > 1:  # the clients that share a GPU must be those of one daemon
        how = f"start one daemon for all before ({CONTROL} -d), or one agent per host"
        raise MpsUnavailable(
            f"{agents_here} agents on this host need an MPS daemon, and none runs: {how}"
        )
    mps_control.quit_abandoned()
    folder = mps_control.own_folder()
    try:
        mps_control.start(folder, devices)
        yield mps_control.pipes(folder) | devices
    finally:
        with defer_signals():
            mps_control.stop(folder)


def device_environment(gpus: Sequence[str]) -> dict[str, str]:
    """Returns the environment that gives these GPUs, in this order, to clients and their daemon.

    It is empty where they have no UUIDs: a daemon and its clients number GPUs differently.
    """
    has_uuids = gpus and all(re.match("(GPU|MIG)-", gpu) for gpu in gpus)
    return {DEVICES: ",".join(gpus)} if has_uuids else {}


def share_environment(percent: float) -> dict[str, str]:
    """Returns the environment that gives a process its share of a GPU."""
    return {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{percent:g}"}
