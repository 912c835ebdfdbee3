"""A cluster as YAML describes it: nodes, rails, leaf switches, and faults put in on purpose."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
import yaml
from analysis.acceptance.findings import GroupedRanks
from analysis.records.places import RankMapping
from analysis.suites.pair_matrix.matrix import NODE, SWITCH
from benchkit.statistics.faults import Ints
from msgspec import Meta

Count = Annotated[int, Meta(ge=1, le=10**6)]
Rate = Annotated[float, Meta(gt=0, le=1e9)]
Number = Annotated[int, Meta(ge=0)]
MOST_RANKS = 2**17
MOST_TIMES = 1e6
"""How many times slower a fault makes something, at most."""
RANK, SENDS, LINK, ONE_WAY, NIC, LEAF = "rank", "sends", "link", "one way", "node", "leaf"


class Broken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault put in on purpose.

    Attributes:
        kind: rank: all that a rank does; sends: what it sends; link: what passes between two ranks,
            one way: in one direction only; node: the network cards of a node; leaf: the uplinks of
            a switch.
        at: number of the rank, of the node or of the switch; of both ranks of a link.
        slower: how many times.
    """

    kind: Literal["rank", "sends", "link", "one way", "node", "leaf"]
    at: list[Number]
    slower: Annotated[float, Meta(gt=1, le=MOST_TIMES)] = 2.0


class Topology(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster of equal nodes.

    Attributes:
        nodes: number of nodes.
        ranks_per_node: number of ranks of each.
        rails: network cards of a node; its ranks share them evenly. Cards beyond one per rank are
            not used.
        nodes_per_leaf: nodes at one leaf switch; leaf switches are connected through the spine.
        oversubscription: rate of all cards at a leaf over that of its uplinks.
        inside_gb_per_s: between two ranks of a node, each direction.
        card_gb_per_s: of a network card, each direction.
        latency_us: of a message and its answer.
        size_mib: of a message.
        faults: put in on purpose.
    """

    nodes: Count = 16
    ranks_per_node: Count = 8
    rails: Count = 8
    nodes_per_leaf: Count = 16
    oversubscription: Rate = 1.0
    inside_gb_per_s: Rate = 300.0
    card_gb_per_s: Rate = 50.0
    latency_us: Rate = 20.0
    size_mib: Rate = 16.0
    faults: list[Broken] = []

    def __post_init__(self) -> None:
        if not 2 <= self.num_ranks <= MOST_RANKS:
            raise ValueError(f"{self.num_ranks} ranks: allowed are 2 to {MOST_RANKS}")
        if self.rails < self.ranks_per_node and self.ranks_per_node % self.rails:
            allowed = f"divisors of ranks_per_node ({self.ranks_per_node}), and more than it"
            raise ValueError(f"rails {self.rails}: allowed are {allowed}")
        sizes = {NIC: self.nodes, LEAF: self.num_leaves}
        for fault in self.faults:
            numbers = 2 if fault.kind in (LINK, ONE_WAY) else 1
            most = sizes.get(fault.kind, self.num_ranks)
            if len(set(fault.at)) != numbers or len(fault.at) != numbers or max(fault.at) >= most:
                allowed = f"{numbers} number{'s' * (numbers > 1)} below {most}"
                raise ValueError(f"fault {fault.kind} at {fault.at}: allowed is {allowed}")

    @property
    def num_ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def num_leaves(self) -> int:
        return -(-self.nodes // self.nodes_per_leaf)

    def node_of(self, ranks: Ints) -> Ints:
        return np.asarray(ranks // self.ranks_per_node)

    def card_of(self, ranks: Ints) -> Ints:
        """Return the number of the card that each rank uses, among all cards."""
        rails = min(self.rails, self.ranks_per_node)
        return np.asarray(self.node_of(ranks) * rails + ranks % self.ranks_per_node % rails)

    def leaf_of(self, ranks: Ints) -> Ints:
        return np.asarray(self.node_of(ranks) // self.nodes_per_leaf)

    def ranks(self) -> GroupedRanks:
        """Return the ranks with their nodes and switches, as the verdict names them."""
        every = np.arange(self.num_ranks)
        node, leaf = self.node_of(every), self.leaf_of(every)
        return GroupedRanks(
            places=[RankMapping(int(rank), f"n{of_rank}") for rank, of_rank in enumerate(node)],
            groups={
                NODE: [f"n{number}" for number in range(self.nodes)],
                SWITCH: [f"leaf{number}" for number in range(self.num_leaves)],
            },
            group_of={NODE: node.tolist(), SWITCH: leaf.tolist()},
        )


def read(path: Path) -> Topology:
    """Read a topology.

    Raises:
        ValueError: the file is not readable or holds something else; the message is one line.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return msgspec.convert(content, Topology)
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: no topology ({reason})") from None
