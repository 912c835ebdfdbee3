"""The cases of one job: a workload on each number of devices, sharded by each rule."""

from functools import partial
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from benchkit.api.case import Case, Rank, Work
from benchkit.suites.auto_shard.config import AutoShardConfig
from benchkit.suites.auto_shard.costs import measure_costs
from benchkit.suites.auto_shard.dispatcher_program import Dispatched
from benchkit.suites.auto_shard.dtensor_program import Sharded
from benchkit.suites.auto_shard.planner import Planner
from benchkit.suites.auto_shard.plans import Costs, Plan
from benchkit.suites.auto_shard.program import COMMUNICATE, COMPUTE, PHASES, Program
from benchkit.suites.auto_shard.variants import (
    DISPATCHER,
    END_TO_END,
    INDEPENDENT,
    ONE,
    RESIDENT,
    Variant,
)
from benchkit.suites.auto_shard.workloads import Workload, parse


class AutoShard:
    """The cases of one job on one rank; all ranks make the same cases in the same order."""

    def __init__(self, config: AutoShardConfig, rank: Rank) -> None:
        self.config = config
        self.rank = rank
        self.dtype: torch.dtype = getattr(torch, config.dtype)
        self.counts = sorted(config.devices)
        several = [count for count in self.counts if count > 1]
        self.meshes = {count: DeviceMesh(rank.device.type, list(range(count))) for count in several}
        self.messages = rank.group("gloo") if DISPATCHER in config.shardings() else None
        self.costs = {count: self.measured(count) for count in self.meshes}
        self.held_bytes = 0.0

    def variants(self, scope: str) -> list[Variant]:
        """Returns the variants of a scope, fewest devices first; the first is the baseline."""
        found = []
        for devices in self.counts:
            if devices == 1:
                found.append(Variant(ONE, 1, scope))
                continue
            found += [Variant(sharding, devices, scope) for sharding in self.config.shardings()]
            if scope == RESIDENT:
                found.append(Variant(INDEPENDENT, devices, scope))
        return found

    def cases(self) -> list[Case]:
        """Returns all cases, each compared with the first of its scope.

        They include what the devices can do at all: a whole workload of its own on each.
        """
        cases = []
        for scope in (RESIDENT, END_TO_END):
            baseline = ""
            for variant in self.variants(scope):
                cases.append(self.case(variant, against=baseline))
                baseline = baseline or variant.name
        return cases

    def workload(self, devices: int) -> Workload:
        """Returns the workload of these devices; with scaling=weak each brings as many rows."""
        workload = parse(self.config.workload)
        return workload.times(devices) if self.config.scaling == "weak" else workload

    def measured(self, devices: int) -> Costs:
        """Measures the costs on these devices; all ranks call this together."""
        rank, mesh = self.rank, self.meshes[devices]
        workload = self.workload(devices)
        member = rank.index < devices
        return measure_costs(workload, mesh, member, rank.device, self.dtype, rank.seconds_of)

    def case(self, variant: Variant, against: str) -> Case:
        """Returns one case, skipped with the reason where it does not fit in memory."""
        planner = self.planner(variant)
        workload = planner.workload
        plan = planned(planner, variant.sharding)
        operand_bytes = plan.elements * self.dtype.itemsize
        needed = int(self.held_bytes + operand_bytes + self.checking_bytes(workload))
        if shortage := self.rank.memory_shortage(needed):
            return Case(labels=variant.labels, name=variant.name, skip=shortage)
        self.held_bytes += planner.held_elements(plan) * self.dtype.itemsize
        copies = variant.devices if variant.sharding == INDEPENDENT else 1
        work = Work(
            useful_flops=workload.flops * copies, executed_flops=plan.executed_flops * copies
        )
        shared: dict[str, Any] = {
            "labels": variant.labels,
            "name": variant.name,
            "against": against,
            "ranks": variant.devices,
            "regions": PHASES if variant.end_to_end else (COMPUTE, COMMUNICATE),
            "bound": variant.sharding == INDEPENDENT,
            "work": work,
            "details": partial(told, planner, plan, variant.sharding),
        }
        if self.rank.index >= variant.devices:
            return Case(**shared)
        program = self.program(workload, plan, variant)
        return Case(step=program.step, verify=program.verify, **shared)

    def program(self, workload: Workload, plan: Plan, variant: Variant) -> Program:
        """Returns this rank's part of a case in which it takes part."""
        shared: dict[str, Any] = {
            "workload": workload,
            "plan": plan,
            "device": self.rank.device,
            "dtype": self.dtype,
            "index": self.rank.index % plan.devices,
            "seed": self.rank.seed,
            "end_to_end": variant.end_to_end,
        }
        if plan.devices == 1:
            return Program(**shared)
        if variant.sharding == DISPATCHER:
            return Dispatched(**shared, group=self.messages)
        return Sharded(**shared, mesh=self.meshes[variant.devices])

    def planner(self, variant: Variant) -> Planner:
        """Returns the planner of a variant; a device alone needs no costs, with nothing to plan."""
        itemsize = self.dtype.itemsize
        if variant.alone:
            workload = self.workload(1)
            costs = Costs(1, itemsize, 0, 0, 0, {}, {})
        else:
            workload = self.workload(variant.devices)
            costs = self.costs[variant.devices]
        free = self.rank.available_bytes / self.rank.sharers
        free -= self.held_bytes
        free -= self.checking_bytes(workload)
        return Planner(workload, costs, variant.end_to_end, free / itemsize)

    def checking_bytes(self, workload: Workload) -> float:
        """Returns the host memory needed to draw exact operands and to compute their result."""
        if self.rank.device.type != "cpu":
            return 0.0
        drawn = workload.rows * workload.widths[0]
        drawn += sum(inner * outer for inner, outer in workload.weights)
        # Checking holds some copies of the widest matrix, in float32 at least.
        widest = 5.0 * workload.rows * max(workload.widths)
        return drawn + widest * max(4, int(self.dtype.itemsize))


def planned(planner: Planner, sharding: str) -> Plan:
    """Returns the plan of one rule."""
    if planner.costs.devices == 1:
        return planner.everywhere()
    return planner.best() if sharding == "auto" else planner.axis0()


def told(planner: Planner, plan: Plan, sharding: str) -> dict[str, Any]:
    """Returns the details that the record keeps of a plan.

    These are the plan itself, its predicted seconds, and the predicted seconds of alternatives.
    """
    if plan.devices == 1:
        return {}
    found: dict[str, Any] = {
        "plan": str(plan),
        "work_share": plan.busiest_flops * plan.devices / planner.workload.flops,
    }
    if sharding == DISPATCHER:  # the cost of its messages is not measured
        return found
    found["latency_s"] = plan.latency_s
    found["predicted_s"] = plan.total_s
    for phase in PHASES:
        found[f"predicted_{phase}_s"] = getattr(plan, f"{phase}_s")
    if sharding == "auto":
        others = sorted(planner.alternatives().items(), key=lambda item: item[1])
        texts = [f"{name} {1e3 * seconds:.3g} ms" for name, seconds in others]
        found["alternatives"] = ", ".join(texts)
    return found
