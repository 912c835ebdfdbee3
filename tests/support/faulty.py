"""An all-reduce that goes wrong on purpose, in every way that a rank can."""

import ctypes
import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass

from benchkit.api.case import Call, Case, Rank, Work
from benchkit.api.keys import RunConfig, key
from benchkit.api.registry import suite
from benchkit.errors import InvalidResult

FAULTS = (
    "none",
    "build",
    "raise",
    "sigkill",
    "segfault",
    "exit",
    "hang",
    "oom",
    "wrong",
    "wrong_later",
    "skip",
    "silent",
    "disconnect",
)


@dataclass
class FaultyConfig(RunConfig):
    fault: str = key("what goes wrong", choices=FAULTS)
    on_rank: int = key("where it goes wrong", at_least=0)


@suite
def faulty(config: FaultyConfig, rank: Rank) -> list[Case]:
    """A sound case and one that goes wrong after a few calls."""
    import torch
    import torch.distributed as dist
    from benchkit.api import verification

    here = rank.index == config.on_rank
    fault = config.fault if here else "none"
    calls = iter(range(10**6))
    print(f"hello from rank {rank.index} of {rank.world_size}")
    if fault == "build":
        raise KeyError("deliberate")
    group, connections = None, set()
    if config.fault == "disconnect":
        before = open_files()
        group = dist.new_group()
        dist.all_reduce(connecting := torch.zeros(1, device=rank.device), group=group)
        connecting.cpu()  # waits for NCCL, whose threads connect
        connections = open_files() - before
        print(f"connections of rank {rank.index}: {sorted(connections)}")

    def case(label: str, fault: str) -> Case:
        buffer = torch.empty(verification.PERIOD + 3, device=rank.device)

        def fill(turn: int) -> None:
            values = verification.pattern(
                seed=1, turn=turn, rank=rank.index, world_size=rank.world_size, dtype=torch.float32, op="sum"
            )
            verification.tile(buffer, values.float())

        def step() -> None:
            call = next(calls)
            if call > 4:
                misbehave(fault, torch, connections)
            dist.all_reduce(buffer, group=group)
            if fault == "wrong" or (fault == "wrong_later" and call > 4):
                buffer[5] += 1

        def verify(call: Call) -> None:
            call(lambda: fill(7))
            if fault == "silent":
                raise InvalidResult
            expected = verification.expected_reduction(1, 7, rank.world_size, torch.float32, "sum")
            verification.require_tiled(buffer, expected.float())

        skip = "needs 9.00 GB, 1.00 GB there" if fault == "skip" else ""
        work = Work(payload_bytes=buffer.nbytes, bus_factor=1.0)
        return Case(step=step, labels={"which": label}, reset=lambda: fill(0), verify=verify, work=work, skip=skip)

    return [case("sound", "none"), case("faulty", fault)]


def open_files() -> set[int]:
    return set(map(int, os.listdir("/proc/self/fd")))


def misbehave(fault: str, torch: object, connections: set[int]) -> None:
    """The faults that end or stop the rank."""
    if fault == "raise":
        raise RuntimeError("deliberate")
    if fault == "sigkill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "segfault":
        ctypes.string_at(0)
    if fault == "exit":
        os._exit(3)
    if fault == "hang":
        time.sleep(1000)
    if fault == "oom":
        torch.empty(1 << 50)  # type: ignore[attr-defined]
    if fault == "disconnect":
        for each in connections:
            with suppress(OSError), socket.socket(fileno=os.dup(each)) as connection:
                connection.getpeername()  # raises where none is connected
                connection.shutdown(socket.SHUT_RDWR)
