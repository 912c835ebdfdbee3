"""Hosts that the kernel pretends: network namespaces, and agents on them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def two_hosts(mark: str, addresses: str = "10.99.7.{}/24") -> Iterator[list[str]]:
    """The names of two network namespaces, joined by a cable; no name leads to their addresses, and no route out."""
    if os.geteuid() or not Path("/sbin/ip").exists():
        pytest.skip("network namespaces need root and iproute2")
    names = [f"bk{mark[:6]}{index}" for index in range(2)]
    script = [f"ip netns add {name}" for name in names] + [
        f"ip link add v{names[0]} netns {names[0]} type veth peer name v{names[1]} netns {names[1]}",
        *(f"ip -n {name} addr add {addresses.format(index)} dev v{name}" for index, name in enumerate(names, 1)),
        *(f"ip -n {name} link set {device} up" for name in names for device in (f"v{name}", "lo")),
    ]
    try:
        subprocess.run(["sh", "-ec", "\n".join(script)], check=True)
        yield names
    finally:
        subprocess.run(["sh", "-c", "; ".join(f"ip netns delete {name}" for name in names)], check=False)


def started_on(cli, names, *arguments, **variables):
    """An agent on each host; they meet by a file in the folder that the hosts share."""
    return [
        cli.start(
            *arguments, under=["ip", "netns", "exec", name], **variables, OMPI_COMM_WORLD_SIZE="2",
            OMPI_COMM_WORLD_RANK=str(index), PMIX_NAMESPACE=cli.mark, SLURMD_NODENAME=f"n{index}",
        )
        for index, name in enumerate(names)
    ]  # fmt: skip
