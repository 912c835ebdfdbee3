"""What nvidia-smi tells of this host's GPUs; it leaves no context on them."""

import logging
import re
import shutil
import subprocess

from benchkit.gpus.numa import node_of_pci

BASIC = ("name", "memory.total", "driver_version", "power.limit", "clocks.max.sm", "uuid")
"""What every driver tells."""
MODES = (
    "pci.bus_id", "mig.mode.current", "compute_mode", "persistence_mode", "ecc.mode.current",
)  # fmt: skip
"""What newer drivers tell, too. A query with a name that the driver does not know fails as a whole.
"""
LIMIT_S = 60.0
"""Without persistence mode the driver initializes each GPU for each query, one after another."""
TOPOLOGY_LIMIT_S = 30.0
"""With LIMIT_S, and that of visible_gpus.py, it is less than other agents wait: EXCHANGE_TIMEOUT_S.
"""
MOST_LETTERS = 4000
"""Of the topology: 8 GPUs and 12 network cards take about 3000."""
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")
log = logging.getLogger("benchkit")


def listing() -> list[dict[str, str]]:
    """Returns what nvidia-smi tells of each GPU by nvidia-smi's names, and its `numa_node`.

    The list is empty without nvidia-smi.
    """
    for keys in ((*BASIC, *MODES), BASIC):
        text = answer(f"--query-gpu={','.join(keys)}", "--format=csv,noheader")
        if text is None:
            return []
        gpus = [dict(zip(keys, line.split(", "), strict=False)) for line in text.splitlines()]
        if gpus:
            return [gpu | numa_node(gpu) for gpu in gpus]
    return []


def numa_node(gpu: dict[str, str]) -> dict[str, str]:
    """Returns the NUMA node of a GPU by its name in a listing; {} where it is not known."""
    node = node_of_pci(gpu.get("pci.bus_id", ""))
    return {} if node is None else {"numa_node": str(node)}


def topology() -> str | None:
    """Returns how GPUs and network cards are connected, without what explains the abbreviations."""
    text = TERMINAL_CODES.sub("", answer("topo", "-m", limit_s=TOPOLOGY_LIMIT_S) or "")
    matrix, _, legend = text.partition("Legend:")
    _, title, cards = legend.partition("NIC Legend:")
    return (matrix.rstrip() + (f"\n\n{title}{cards}" if title else ""))[:MOST_LETTERS] or None


def answer(*arguments: str, limit_s: float = LIMIT_S) -> str | None:
    """Returns what nvidia-smi prints; "" where it fails, None where it does not answer at all."""
    if shutil.which("nvidia-smi") is None:
        return None
    try:
        done = subprocess.run(
            ("nvidia-smi", *arguments), capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        log.warning(
            "nvidia-smi %s gave no answer within %g s, so records lack it; "
            "persistence mode (nvidia-smi -pm 1) makes it faster",
            arguments[0].partition("=")[0],
            limit_s,
        )
        return None
    except OSError:
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
