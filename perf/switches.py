"""Judge simulated clusters of few switches, with hosts numbered along the switches and at random.

    python -m perf.switches --repetitions 5

Per order of hosts and kind of fault, which takes 1.5 times as long, a row on all layouts together: how often the
verdict names the fault, names something else, too or instead, or calls all alike. Every switch of a layout is
slow once; of other faults the first ones. Where a fault is not always named, a line goes to stderr.
"""

import argparse
import sys

import msgspec
import numpy as np

from perf.simulate.acceptance import is_named, judge_rounds, rounds_of
from perf.simulate.topology import Broken, Topology

LAYOUTS = [
    (16, 2, 4, 1.0), (16, 8, 4, 1.0), (20, 4, 4, 1.0), (12, 4, 4, 1.0), (10, 4, 2, 1.0), (16, 4, 4, 2.0),
    (24, 4, 4, 4.0), (32, 4, 8, 1.0), (18, 4, 4, 1.0), (12, 4, 2, 2.0), (8, 8, 2, 1.0), (9, 3, 3, 1.0), (40, 2, 8, 2.0),
]  # fmt: skip
"""Nodes, ranks per node, nodes per switch, oversubscription."""
KINDS = ("none", "leaf", "node", "link")
SLOWER = 1.5
MINUTES = 3.0
NOISE = 0.05


class Mixed(Topology, frozen=True):
    """A cluster whose hosts are numbered at random over its switches."""

    def leaf_of(self, ranks: np.ndarray) -> np.ndarray:
        order = np.random.default_rng(5).permutation(self.nodes)
        return np.asarray(order[self.node_of(ranks)] // self.nodes_per_leaf)


def clusters(topology: Topology, kind: str) -> list[Topology]:
    """Return the cluster with each fault of a kind."""
    if kind == "none":
        return [topology]
    places = {"leaf": [[leaf] for leaf in range(topology.num_leaves)], "node": [[3]], "link": [[2, 10]]}[kind]
    return [msgspec.structs.replace(topology, faults=[Broken(kind, at, SLOWER)]) for at in places]


def counts(topology: Topology, repetitions: int) -> np.ndarray:
    """Count the verdicts: all, those that name the fault, that name something else, that call all alike."""
    rounds, ranks = rounds_of(topology, MINUTES, 0), topology.ranks()
    found = np.zeros(4, dtype=int)
    for seed in range(repetitions):
        verdict = judge_rounds(topology, rounds, ranks, NOISE, seed)
        named = any(is_named(verdict, fault, topology) for fault in topology.faults)
        others = len(verdict.findings) > named or bool(verdict.unlike)
        found += [1, named, others, verdict.is_alike]
    if topology.faults and found[1] < repetitions:
        print(f"named {found[1]}, something else {found[2]}, alike {found[3]} times: {topology}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    print("| hosts numbered | slow | acceptances | named | something else | all alike |\n|---|---|---|---|---|---|")
    for order, cluster in (("along switches", Topology), ("at random", Mixed)):
        layouts = [
            cluster(nodes=nodes, ranks_per_node=ranks, rails=ranks, nodes_per_leaf=per_leaf, oversubscription=ratio)
            for nodes, ranks, per_leaf, ratio in LAYOUTS
        ]
        for kind in KINDS:
            broken = [each for layout in layouts for each in clusters(layout, kind)]
            row = sum(counts(each, given.repetitions) for each in broken)
            print(f"| {order} | {kind} | {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
