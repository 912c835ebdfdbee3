"""What ranks run in tests of auto_shard: started by launch.ranks.pool, so importable by name."""

import itertools
import math

import torch
import torch.distributed as dist
from benchkit.api.p2p import mesh_of
from benchkit.errors import InvalidResult
from benchkit.suites.auto_shard.costs import measure_costs
from benchkit.suites.auto_shard.dispatcher_program import Dispatched
from benchkit.suites.auto_shard.planner import COLUMNS, LAYOUTS, MOVES, ROWS, Link, ShardingCosts, ShardPlanner, choices
from benchkit.suites.auto_shard.program import ChainProgram, Sharded
from benchkit.suites.auto_shard.workloads import parse

from tests.support import fakes

CPU = torch.device("cpu")
LINK = Link(1e-5, 1e-9)


def costs(devices: int) -> ShardingCosts:
    return ShardingCosts(devices, 4, 1e-9, 0, 0, dict.fromkeys(MOVES, LINK), dict.fromkeys((ROWS, COLUMNS), LINK))


def join(rank: int, world_size: int, meeting: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)


def every_plan(task: tuple[str, int, int, str]) -> list[str]:
    """Carries out every plan there is of a workload, both scopes; returns those whose result is wrong, and why."""
    name, rank, world_size, meeting = task
    join(rank, world_size, meeting)
    mesh, wrong = mesh_of(dist.group.WORLD, CPU), []
    for end_to_end in (False, True):
        planner = ShardPlanner(parse(name), costs(world_size), end_to_end)
        for start in LAYOUTS:
            for layers in itertools.product(choices(), repeat=len(planner.workload.weights)):
                plan = planner.start(start)
                for index, layer in enumerate(layers):
                    plan = planner.add_layer(plan, index, layer)
                given = (planner.workload, planner.add_fetch(plan), CPU, torch.float32, rank, 0, end_to_end)
                try:
                    fakes.verify(Sharded(*given, mesh))
                except InvalidResult as error:
                    wrong.append(f"{plan}: {error}")
    dist.barrier()
    return wrong


def dispatched(task: tuple[str, int, int, str]) -> list[str]:
    """The same of the dispatcher's one plan."""
    name, rank, world_size, meeting = task
    join(rank, world_size, meeting)
    wrong = []
    for end_to_end in (False, True):
        plan = ShardPlanner(parse(name), costs(world_size), end_to_end).axis0()
        try:
            fakes.verify(Dispatched(parse(name), plan, CPU, torch.float32, rank, 0, end_to_end, None))
        except InvalidResult as error:
            wrong.append(str(error))
    dist.barrier()
    return wrong


def measured(task: tuple[int, int, str]) -> dict[str, object]:
    """Costs as two of three ranks measure them, where call i takes i ms on rank 0 and twice that on rank 1."""
    rank, world_size, meeting = task
    join(rank, world_size, meeting)

    def seconds_of(*calls):
        for call in calls:
            call()
        return [[1e-3 * index * factor for factor in (1, 2, 0)] for index in range(len(calls))]

    found = measure_costs(parse("matmul_100x128x64"), 2, mesh_of(dist.group.WORLD, CPU), CPU, torch.float32, seconds_of)
    dist.barrier()
    links = [*found.moves.values(), *found.fetch.values()]
    return {
        "rates": (found.flop_s, found.create_s, found.touch_s),
        "latencies": [link.latency_s for link in links],
        "per_byte": [link.byte_s for link in links],
    }


def alone(name: str, end_to_end: bool) -> ChainProgram:
    """A program of one device."""
    planner = ShardPlanner(parse(name), ShardingCosts(1, 4, 0, 0, 0, {}, {}), end_to_end, math.inf)
    return ChainProgram(planner.workload, planner.everywhere(), CPU, torch.float32, 0, 0, end_to_end)
