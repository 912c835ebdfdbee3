"""The cases of one job: a workload on each number of devices, sharded by each rule, and what devices can do at all."""

from dataclasses import dataclass
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
from benchkit.suites.auto_shard.workloads import Workload, parse

ONE, INDEPENDENT, DISPATCHER = "none", "independent", "dispatcher"
"""Of `sharding`: on one device; each device a whole workload of its own; GT's architecture. The others are planners."""
RESIDENT, END_TO_END = "resident", "end_to_end"
"""Operands and result stay on the devices; or they are created, and the result is fetched."""


@dataclass(frozen=True)
class Variant:
    """What sets a case apart."""

    sharding: str
    devices: int
    scope: str

    @property
    def labels(self) -> dict[str, str | int | float]:
        return {"sharding": self.sharding, "ranks": self.devices, "scope": self.scope}

    @property
    def name(self) -> str:
        return f"{self.sharding} {self.devices} {self.scope}"

    @property
    def end_to_end(self) -> bool:
        return self.scope == END_TO_END

    @property
    def alone(self) -> bool:
        """Whether each of its devices does a whole workload."""
        return self.sharding in (ONE, INDEPENDENT)


class AutoShard:
    """One rank's side of a job. All ranks make the same cases in the same order."""

    def __init__(self, config: AutoShardConfig, rank: Rank) -> None:
        self.config, self.rank = config, rank
        self.dtype: torch.dtype = getattr(torch, config.dtype)
        self.counts = sorted(config.devices)
        self.meshes = {n: DeviceMesh(rank.device.type, list(range(n))) for n in self.counts if n > 1}
        self.messages = rank.group("gloo") if DISPATCHER in config.shardings() else None
        self.costs = {n: self.measured(n) for n in self.meshes}
        self.held_bytes = 0.0

    def variants(self, scope: str) -> list[Variant]:
        """The least devices first, which the others are compared with."""
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
        return [
            self.case(variant, against="" if variant is variants[0] else variants[0].name)
            for variants in map(self.variants, (RESIDENT, END_TO_END))
            for variant in variants
        ]

    def workload(self, devices: int) -> Workload:
        """On so many devices: with scaling=weak each brings as many rows."""
        given = parse(self.config.workload)
        return given.times(devices) if self.config.scaling == "weak" else given

    def measured(self, devices: int) -> Costs:
        """What things cost on so many devices; all ranks together."""
        rank, mesh = self.rank, self.meshes[devices]
        member = rank.index < devices
        return measure_costs(self.workload(devices), mesh, member, rank.device, self.dtype, rank.seconds_of)

    def case(self, variant: Variant, against: str) -> Case:
        """One case; says why where it does not fit the memory."""
        planner = self.planner(variant)
        plan = planned(planner, variant.sharding)
        elements = plan.elements * self.dtype.itemsize
        needed = int(self.held_bytes + elements + self.checking_bytes(planner.workload))
        if shortage := self.rank.memory_shortage(needed):
            return Case(labels=variant.labels, name=variant.name, skip=shortage)
        self.held_bytes += planner.held_elements(plan) * self.dtype.itemsize
        copies = variant.devices if variant.sharding == INDEPENDENT else 1
        shared: dict[str, Any] = {
            "labels": variant.labels,
            "name": variant.name,
            "against": against,
            "ranks": variant.devices,
            "regions": PHASES if variant.end_to_end else (COMPUTE, COMMUNICATE),
            "bound": variant.sharding == INDEPENDENT,
            "work": Work(useful_flops=planner.workload.flops * copies, executed_flops=plan.executed_flops * copies),
            "details": partial(told, planner, plan, variant.sharding),
        }
        if self.rank.index >= variant.devices:
            return Case(**shared)
        program = self.program(planner.workload, plan, variant)
        return Case(step=program.step, verify=program.verify, **shared)

    def program(self, workload: Workload, plan: Plan, variant: Variant) -> Program:
        """What this rank does in a case that it has part in."""
        rank = self.rank
        given = (workload, plan, rank.device, self.dtype, rank.index % plan.devices, rank.seed, variant.end_to_end)
        if plan.devices == 1:
            return Program(*given)
        if variant.sharding == DISPATCHER:
            return Dispatched(*given, self.messages)
        return Sharded(*given, self.meshes[variant.devices])

    def planner(self, variant: Variant) -> Planner:
        """A device alone has nothing to plan, hence needs no costs."""
        itemsize = self.dtype.itemsize
        costs = Costs(1, itemsize, 0, 0, 0, {}, {}) if variant.alone else self.costs[variant.devices]
        workload = self.workload(1 if variant.alone else variant.devices)
        free = self.rank.available_bytes / self.rank.sharers - self.held_bytes - self.checking_bytes(workload)
        return Planner(workload, costs, variant.end_to_end, free / itemsize)

    def checking_bytes(self, workload: Workload) -> float:
        """In the host's memory, to draw exact operands and to know the result."""
        if self.rank.device.type != "cpu":
            return 0.0
        drawn = workload.rows * workload.widths[0] + sum(inner * outer for inner, outer in workload.weights)
        widest = 5.0 * workload.rows * max(workload.widths)  # some copies of the widest, in float32 at least
        return drawn + widest * max(4, int(self.dtype.itemsize))


def planned(planner: Planner, sharding: str) -> Plan:
    """The plan of one rule."""
    if planner.costs.devices == 1:
        return planner.everywhere()
    return planner.best() if sharding == "auto" else planner.axis0()


def told(planner: Planner, plan: Plan, sharding: str) -> dict[str, Any]:
    """What the record says of a plan: what it is, its predicted seconds, what the other ways would take."""
    if plan.devices == 1:
        return {}
    found: dict[str, Any] = {
        "plan": str(plan),
        "work_share": plan.busiest_flops * plan.devices / planner.workload.flops,
    }
    if sharding == DISPATCHER:  # what its messages cost nobody measured
        return found
    phases = {f"predicted_{name}_s": getattr(plan, f"{name}_s") for name in PHASES}
    found |= {"latency_s": plan.latency_s, "predicted_s": plan.total_s, **phases}
    if sharding == "auto":
        others = sorted(planner.alternatives().items(), key=lambda item: item[1])
        found["alternatives"] = ", ".join(f"{name} {1e3 * seconds:.3g} ms" for name, seconds in others)
    return found
