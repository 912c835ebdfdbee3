"""Verdicts on simulated clusters of few switches, with hosts numbered along the switches and at random.

    python -m tests.perf.switches --repetitions 5

Per order of hosts and fault that takes 1.5 times as long, of all layouts together: how often the verdict names it,
tells something else, too, or says that all are alike. Layouts in which it fails to name a fault go to stderr.
"""

import argparse
import sys

import msgspec
import numpy as np
from analysis.commands.simulation.acceptance import is_named, judged, rounds_of
from analysis.commands.simulation.topology import Broken, Topology

LAYOUTS = [
    (16, 2, 4, 1.0), (16, 8, 4, 1.0), (20, 4, 4, 1.0), (12, 4, 4, 1.0), (10, 4, 2, 1.0), (16, 4, 4, 2.0),
    (24, 4, 4, 4.0), (32, 4, 8, 1.0), (18, 4, 4, 1.0), (12, 4, 2, 2.0), (8, 8, 2, 1.0), (9, 3, 3, 1.0), (40, 2, 8, 2.0),
]  # fmt: skip
"""Nodes, ranks per node, nodes per switch, oversubscription."""
FAULTS = [None, Broken("leaf", [1], 1.5), Broken("node", [3], 1.5), Broken("link", [2, 10], 1.5)]
MINUTES = 3.0
NOISE = 0.05


class Mixed(Topology, frozen=True):
    """A cluster whose hosts are numbered at random over its switches."""

    def leaf_of(self, ranks: np.ndarray) -> np.ndarray:
        order = np.random.default_rng(5).permutation(self.nodes)
        return np.asarray(order[self.node_of(ranks)] // self.nodes_per_leaf)


def counts(topology: Topology, fault: Broken | None, repetitions: int) -> np.ndarray:
    """How many verdicts name a fault, tell something else, say that all are alike."""
    broken = msgspec.structs.replace(topology, faults=[fault] if fault else [])
    rounds, ranks = rounds_of(broken, MINUTES, 0), broken.ranks()
    verdicts = [judged(broken, rounds, ranks, NOISE, seed) for seed in range(repetitions)]
    named = sum(is_named(each, fault, broken) for each in verdicts) if fault else 0
    if fault and named < repetitions:
        print(f"{fault.kind} named {named} times: {topology}", file=sys.stderr)
    others = sum(len(each.findings) > bool(fault) for each in verdicts)
    return np.array([named, others, sum(each.is_alike for each in verdicts)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    total = given.repetitions * len(LAYOUTS)
    print(f"| hosts | fault | named of {total} | more | all alike |\n|---|---|---|---|---|")
    for order, kind in (("along switches", Topology), ("at random", Mixed)):
        for fault in FAULTS:
            found = np.zeros(3, dtype=int)
            for nodes, ranks, per_leaf, ratio in LAYOUTS:
                topology = kind(
                    nodes=nodes, ranks_per_node=ranks, rails=ranks, nodes_per_leaf=per_leaf, oversubscription=ratio
                )
                found += counts(topology, fault, given.repetitions)
            print(f"| {order} | {fault.kind if fault else 'none'} | {found[0]} | {found[1]} | {found[2]} |", flush=True)


if __name__ == "__main__":
    main()
