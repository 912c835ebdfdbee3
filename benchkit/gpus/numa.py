"""NUMA nodes of GPUs and of cores, as Linux lists them."""

from collections.abc import Collection
from pathlib import Path

from launch.topology import cores_in, read_text

PCI_DEVICES = Path("/sys/bus/pci/devices")
NODES = Path("/sys/devices/system/node")


def node_of_pci(address: str) -> int | None:
    """Returns the NUMA node of a PCI device; None where it is not known.

    Args:
        address: such as "0000:17:00.0"; NVIDIA writes the domain with eight digits.
    """
    domain, _, rest = address.lower().partition(":")
    text = read_text(str(PCI_DEVICES / f"{domain[-4:]}:{rest}" / "numa_node"))
    return int(text) if text.isdecimal() else None  # -1 on a host without NUMA


def nodes_of_cores(cores: Collection[int]) -> list[int]:
    """Returns the NUMA nodes that some of these cores belong to, in order."""
    found = []
    for path in NODES.glob("node[0-9]*"):
        if not cores_in(read_text(str(path / "cpulist"))).isdisjoint(cores):
            found.append(int(path.name.removeprefix("node")))
    return sorted(found)
