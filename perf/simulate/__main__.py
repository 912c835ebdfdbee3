"""What an acceptance of thousands of ranks would cost and find.

python -m perf.simulate cluster.yaml --minutes 8
python -m perf.simulate --ranks 8,64,512 --noise 0.05,0.2
"""

import argparse
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from analysis.shared.text import complain
from analysis.shared.text_table import as_markdown
from msgspec.structs import replace

from perf.simulate.acceptance import is_named, judge_rounds, rounds_of, with_fault
from perf.simulate.topology import (
    LEAF,
    LINK,
    MOST_RANKS,
    MOST_TIMES,
    NIC,
    ONE_WAY,
    RANK,
    SENDS,
    Broken,
    Topology,
    read,
)  # fmt: skip

warn = partial(complain, "perf.simulate")

KINDS = (RANK, SENDS, LINK, ONE_WAY, NIC, LEAF)
MOST_NOISE = 10.0
NOTE = (
    "Simulated, not measured: max-min fair shares of cards and uplinks, log-normal noise with\n"
    "spikes. named: acceptances in which the fault was named, with its kind; alarms: those in\n"
    "which a healthy cluster was called out of line; more: those with a finding beside the fault.\n"
)


def main(arguments: list[str]) -> int:
    """Print the verdict on one described cluster, or a table over numbers of ranks and noise.

    Returns:
        0; 1 where the described cluster is out of line; 2 for invalid arguments.
    """
    options = parser().parse_args(arguments)
    try:
        topology = read(options.topology) if options.topology else Topology()
        check(options, topology)
    except ValueError as error:
        warn(error)
        return 2
    if not options.ranks:
        return print_verdict(topology, options)
    rows = [
        row
        for ranks in options.ranks
        for noise in options.noise
        for row in rows_of(resized(topology, ranks), noise, options)
    ]
    print(NOTE)
    print(as_markdown(rows))
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\npeak memory of this process: {peak_gb:.2g} GB")
    return 0


def check(options: argparse.Namespace, topology: Topology) -> None:
    """Raise ValueError for arguments out of range."""
    for ranks in options.ranks:
        if ranks < 4 or ranks > MOST_RANKS or ranks % topology.ranks_per_node:
            allowed = f"multiples of {topology.ranks_per_node}, 4 to {MOST_RANKS}"
            raise ValueError(f"--ranks {ranks}: allowed are {allowed}")
    if options.ranks and topology.faults:
        raise ValueError(f"--ranks puts in each kind of fault; {options.topology} has its own")
    limits = {"minutes": (0, 1e6), "repetitions": (0, 1e6), "slower": (1, MOST_TIMES)}
    for name, (least, most) in limits.items():
        if not least < (value := getattr(options, name)) <= most:
            raise ValueError(f"--{name} {value:g}: allowed is > {least}, at most {most:g}")
    for noise in options.noise:
        if not 0 <= noise <= MOST_NOISE:
            raise ValueError(f"--noise {noise:g}: allowed is >= 0, at most {MOST_NOISE:g}")


def print_verdict(topology: Topology, options: argparse.Namespace) -> int:
    """Print the verdict on one acceptance of a cluster, and what it costs."""
    rounds = rounds_of(topology, options.minutes, seed=0)
    verdict = judge_rounds(topology, rounds, topology.ranks(), options.noise[0], seed=0)
    print(f"{rounds.minutes:.2g} minutes for {rounds.share:.0%} of all pairs, simulated.")
    print(*verdict.lines(0.1), sep="\n")
    return int(not verdict.is_alike)


def resized(topology: Topology, ranks: int) -> Topology:
    """Return a topology with so many ranks; a small one has leaf switches of two nodes."""
    nodes = ranks // topology.ranks_per_node
    per_leaf = min(topology.nodes_per_leaf, max(1, nodes // 4))
    return replace(topology, nodes=nodes, nodes_per_leaf=per_leaf, faults=[])


def faults_of(topology: Topology, slower: float) -> Iterator[Broken]:
    """Yield a fault of each kind that such a cluster can have."""
    last = topology.num_ranks - 1
    at = {RANK: [1], SENDS: [1], LINK: [1, last], ONE_WAY: [1, last], NIC: [1], LEAF: [1]}
    leaves = -(-topology.nodes // topology.nodes_per_leaf)
    for kind in KINDS:
        if (kind != NIC or topology.nodes > 2) and (kind != LEAF or leaves > 2):
            yield Broken(kind, at[kind], slower)  # type: ignore[arg-type]


def rows_of(topology: Topology, noise: float, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield a row of the healthy cluster, and one per kind of fault."""
    ranks = topology.ranks()
    for fault in (None, *faults_of(topology, options.slower)):
        cluster = with_fault(topology, fault) if fault else topology
        named = alarms = 0
        spent_s = 0.0
        for seed in range(options.repetitions):
            rounds = rounds_of(cluster, options.minutes, seed)
            began = time.process_time()
            verdict = judge_rounds(cluster, rounds, ranks, noise, seed)
            spent_s += time.process_time() - began
            is_found = fault is not None and is_named(verdict, fault, cluster)
            named += is_found
            alarms += len(verdict.findings) > is_found
        yield {
            "ranks": topology.num_ranks, "noise [%]": 100 * noise,
            "fault": fault.kind if fault else "none",
            "named [%]": 100 * named / options.repetitions if fault else None,
            "alarms, more [%]": 100 * alarms / options.repetitions,
            "pairs [%]": 100 * rounds.share, "minutes": rounds.minutes,
            "verdict [CPU s]": spent_s / options.repetitions,
        }  # fmt: skip


def numbers(text: str) -> Sequence[int]:
    return [int(part) for part in text.split(",")]


def shares(text: str) -> Sequence[float]:
    return [float(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m perf.simulate",
        description="Without --ranks: the verdict on one simulated acceptance of a described "
        "cluster. With --ranks: cost, detection and false alarms over numbers of ranks and noise.",
    )
    add = result.add_argument
    add("topology", nargs="?", type=Path, metavar="FILE", help="YAML, see docs/acceptance.md")
    add("--ranks", type=numbers, default=[], metavar="N,N,...", help="numbers of ranks")
    add("--noise", type=shares, default=[0.05], metavar="S,S,...", help="spread of samples")
    add("--minutes", type=float, default=4.0, help="for all pairs (default: 4)")
    add("--repetitions", type=int, default=20, metavar="N", help="per row (default: 20)")
    add("--slower", type=float, default=1.5, metavar="F", help="of the faults (default: 1.5)")
    return result


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
