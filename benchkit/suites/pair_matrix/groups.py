"""All-reduces of nested groups: at which level of the tree do they become slow?"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
import torch.distributed as dist

from benchkit.api import verification
from benchkit.api.case import Call, Case, Rank, Work, noop
from benchkit.api.device_mesh import join_group
from benchkit.suites.pair_matrix.config import PairMatrixConfig
from benchkit.suites.pair_matrix.names import ALL, GROUP, GROUP_OF, HALVES, NODES, PAIRS
from benchkit.suites.pair_matrix.schedule import grouped

LEVELS = (PAIRS, NODES, HALVES, ALL)


def groups_at(level: str, hosts: Sequence[str]) -> list[list[int]]:
    """Returns the ranks of each group of a level; ranks of one node are neighbours in it.

    A last rank without a partner belongs to the last pair.
    """
    by_node = [rank for ranks in grouped(hosts) for rank in ranks]
    if level == NODES:
        return grouped(hosts)
    count = {PAIRS: max(1, len(by_node) // 2), HALVES: 2, ALL: 1}[level]
    bounds = [len(by_node) * number // count for number in range(count + 1)]
    if level == PAIRS:
        bounds = [2 * number for number in range(count)] + [len(by_node)]
    return [by_node[low:high] for low, high in pairwise(bounds)]


def group_cases(config: PairMatrixConfig, rank: Rank, num_bytes: int) -> list[Case]:
    """Returns a case per level that differs from the levels below it; all ranks call it together.

    A level whose groups are single ranks communicates nothing and has no case.
    """
    cases: list[Case] = []
    seen: list[list[list[int]]] = []
    for level in (level for level in LEVELS if level in config.groups):
        groups = groups_at(level, rank.hosts)
        if groups in seen or max(map(len, groups)) == 1:
            continue
        seen.append(groups)
        cases.append(group_case(level, groups, config.timeout_s, rank, num_bytes))
    return cases


def group_case(
    level: str, groups: list[list[int]], timeout_s: float, rank: Rank, num_bytes: int
) -> Case:
    """Returns the case in which every group of a level reduces at the same time."""
    handle = join_group(tuple(map(tuple, groups)), timeout_s)
    number = next(index for index, ranks in enumerate(groups) if rank.index in ranks)
    buffer = torch.zeros(max(1, num_bytes // 4), dtype=torch.float32, device=rank.device)
    group_of = {member: index for index, ranks in enumerate(groups) for member in ranks}
    members = groups[number]
    step = partial(dist.all_reduce, buffer, group=handle)
    drawn = partial(
        verification.pattern, seed=rank.seed, turn=number, world_size=len(members),
        dtype=buffer.dtype, op="sum", length=len(buffer),
    )  # fmt: skip

    def verify(call: Call) -> None:
        mine = drawn(rank=members.index(rank.index)).to(buffer)
        call(lambda: verification.tile(buffer, mine))
        total = sum(drawn(rank=member).to(buffer) for member in range(len(members)))
        verification.require_tiled(buffer, total)
        buffer.zero_()  # sums of zeros keep their size

    details = {GROUP_OF: [group_of[member] for member in range(rank.world_size)]}
    return Case(
        step=step if len(members) > 1 else noop,
        labels={GROUP: level, "data_size": num_bytes / 2**20},
        verify=verify,
        work=Work(payload_bytes=buffer.numel() * buffer.itemsize),
        details=lambda: details,
    )
