"""Measure how often a verdict is right, with real processes: agents in network namespaces joined by a bridge.

    python -m perf.acceptance FOLDER [--repetitions 20] [--only link rank]

Needs root, iproute2 and the queueing discipline tbf. Every node is a network namespace; its cable to the bridge has a
rate that the processors can fill. Faults: a cable, a link or a node of a quarter of that rate, a CPU quota for a rank,
or nothing. Print a Markdown table: how often the fault was named, and how often anything else.
"""

import argparse
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from analysis.acceptance.findings import FaultFinding
from analysis.acceptance.verdict import judge
from analysis.suites.pair_matrix import matrix
from benchkit.record import files
from benchkit.statistics.faults import FaultLimits

BASE_MBIT, SLOW_MBIT = 400, 100
NET = "10.98.7"
NODES = 6


@dataclass(frozen=True)
class Scenario:
    """A cluster with a fault.

    `cables`: Mbit/s of a node's egress and ingress, by node, if not BASE_MBIT. `link`: Mbit/s between two nodes, by
    both. `wanted`: family and numbers of the finding that names the fault.
    """

    ranks_per_node: int = 1
    nodes: int = NODES
    cables: dict[int, tuple[int, int]] = field(default_factory=dict)
    link: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    wanted: tuple[str, set[int]] | None = None


SCENARIOS = {
    "nothing": Scenario(),
    "link": Scenario(link={(1, 4): (SLOW_MBIT, SLOW_MBIT)}, wanted=(matrix.LINK, {1, 4})),
    "one way": Scenario(link={(1, 4): (SLOW_MBIT, BASE_MBIT)}, wanted=(matrix.ONE_WAY, {1, 4})),
    "sends": Scenario(cables={2: (SLOW_MBIT, BASE_MBIT)}, wanted=(matrix.RANK_SENDS, {2})),
    "cable": Scenario(cables={2: (SLOW_MBIT, SLOW_MBIT)}, wanted=(matrix.RANK, {2})),
    "rank": Scenario(options=("hardware.slowdown=[1,1,1,8,1,1]",), wanted=(matrix.RANK, {3})),
    "node": Scenario(
        ranks_per_node=2, nodes=4, cables={1: (SLOW_MBIT, SLOW_MBIT)},
        wanted=(f"{matrix.NODE} {matrix.NETWORK}", {1}),
    ),
    "nothing, 2 ranks per node": Scenario(ranks_per_node=2, nodes=4),
}  # fmt: skip


def limited(name: str, device: str, mbit: int) -> str:
    """Return the command that limits the egress rate of a device."""
    return f"ip netns exec {name} tc qdisc add dev {device} root tbf rate {mbit}mbit burst 64kb latency 200ms"


def commands(scenario: Scenario, names: list[str], switch: str) -> Iterator[str]:
    """Yield the commands that lay the cables."""
    for name in (*names, switch):
        yield f"ip netns add {name}"
        yield f"ip -n {name} link set lo up"
    yield f"ip -n {switch} link add br0 type bridge"
    yield f"ip -n {switch} link set br0 up"
    for node, name in enumerate(names):
        yield f"ip link add eth0 netns {name} type veth peer name port{node} netns {switch}"
        yield f"ip -n {name} addr add {NET}.{node + 1}/24 dev eth0"
        yield f"ip -n {name} link set eth0 up"
        yield f"ip -n {switch} link set port{node} master br0"
        yield f"ip -n {switch} link set port{node} up"
        sends, receives = scenario.cables.get(node, (BASE_MBIT, BASE_MBIT))
        yield limited(name, "eth0", sends)
        yield limited(switch, f"port{node}", receives)
    for (one, other), rates in scenario.link.items():
        ends = (one, other), (other, one)
        yield f"ip link add to{other} netns {names[one]} type veth peer name to{one} netns {names[other]}"
        for (here, there), mbit in zip(ends, rates, strict=True):
            yield f"ip -n {names[here]} link set to{there} up"
            yield f"ip -n {names[here]} route add {NET}.{there + 1}/32 dev to{there} src {NET}.{here + 1}"
            yield limited(names[here], f"to{there}", mbit)


@contextmanager
def cluster(scenario: Scenario) -> Iterator[list[str]]:
    """Provide the namespaces with their cables."""
    mark = uuid.uuid4().hex[:6]
    names = [f"bk{mark}{node}" for node in range(scenario.nodes)]
    try:
        script = "\n".join(commands(scenario, names, f"bk{mark}s"))
        subprocess.run(["sh", "-ec", script], check=True)
        yield names
    finally:
        removed = "; ".join(f"ip netns delete {name}" for name in (*names, f"bk{mark}s"))
        subprocess.run(["sh", "-c", removed], check=False, capture_output=True)


def measured(scenario: Scenario, folder: Path, acceptances: int) -> None:
    """Measure all pairs twice per acceptance, in fresh ranks each time, with an agent per node."""
    folder.mkdir(parents=True)
    ranks = scenario.nodes * scenario.ranks_per_node
    command = [
        sys.executable, "-m", "benchkit", "+suite=pair_matrix", f"world_size={ranks}", "sizes=[512KiB]", "groups=[]",
        f"repeat={2 * acceptances}", "measure.max_iterations=10", "threads_per_rank=1", "hardware=cpu",
        *scenario.options,
    ]  # fmt: skip
    with cluster(scenario) as names:
        shared = {
            **os.environ, "OMPI_COMM_WORLD_SIZE": str(len(names)), "MASTER_ADDR": f"{NET}.1", "MASTER_PORT": "29877",
            "BENCHKIT_SECRET": uuid.uuid4().hex,
        }  # fmt: skip
        agents = []
        for node, name in enumerate(names):
            own = {"OMPI_COMM_WORLD_RANK": str(node), "SLURMD_NODENAME": f"n{node}"}
            with (folder / f"agent{node}.log").open("w") as log:
                agents.append(
                    subprocess.Popen(
                        ["ip", "netns", "exec", name, *command], cwd=folder, env=shared | own, stdout=log, stderr=log
                    )
                )
        codes = [agent.wait() for agent in agents]
    if any(codes):
        raise RuntimeError(f"{folder}: agents ended with {codes}: {(folder / 'agent0.log').read_text()[-800:]}")


def findings(folder: Path) -> Iterator[list[FaultFinding]]:
    """Yield the findings of the verdict on each two measurements in a folder."""
    paths = sorted(folder.glob("outputs/latest/*/record.json"))
    records = sorted(map(files.read, paths), key=lambda record: record.started_at)
    for first, second in zip(records[::2], records[1::2], strict=True):
        verdict = judge([first, second], FaultLimits())
        assert verdict is not None
        yield list(verdict.findings)


def names_fault(finding: FaultFinding, wanted: tuple[str, set[int]] | None) -> bool:
    return wanted is not None and wanted[0] in finding.parts and set(finding.cause.numbers) == wanted[1]


def row_of(name: str, scenario: Scenario, folder: Path, repetitions: int) -> str:
    """Measure what is missing, and return a table row on all measurements in the folder."""
    judged = named = others = 0
    place = folder / name.replace(" ", "_").replace(",", "")
    if not place.exists():
        measured(scenario, place, repetitions)
    for judged, found in enumerate(findings(place), 1):
        is_named = [names_fault(each, scenario.wanted) for each in found]
        named += any(is_named)
        others += not all(is_named)
        told = [(each.cause.grouping, each.cause.numbers, sorted(each.parts), each.ratios) for each in found]
        print(json.dumps([name, judged, told]), file=sys.stderr, flush=True)
    share = f"{named} of {judged}" if scenario.wanted else ""
    return f"| {name} | {scenario.nodes} x {scenario.ranks_per_node} | {share} | {others} of {judged} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repetitions", type=int, default=20, help="of a scenario that the folder does not hold")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=[*SCENARIOS], help="scenarios")
    given = parser.parse_args()
    rows = [row_of(name, SCENARIOS[name], given.folder.resolve(), given.repetitions) for name in given.only]
    print("| fault | nodes x ranks | named | with another finding |\n|---|---|---|---|", *rows, sep="\n")


if __name__ == "__main__":
    main()
