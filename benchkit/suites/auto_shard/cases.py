"""A workload on each number of devices, sharded by each rule."""

from dataclasses import dataclass, replace
from functools import partial

import torch

from benchkit.api import p2p
from benchkit.api.case import PREDICTED_S, Case, Details, Rank, Work
from benchkit.statistics import SLOWEST_RANK, SPAN
from benchkit.suites.auto_shard.costs import measure_costs
from benchkit.suites.auto_shard.dispatcher_program import Dispatched
from benchkit.suites.auto_shard.planner import ShardingCosts, ShardPlan, ShardPlanner, costs_of_one
from benchkit.suites.auto_shard.program import ChainProgram, Sharded, unseen_devices
from benchkit.suites.auto_shard.suite import (
    AUTO,
    CREATES_WHOLE,
    DISPATCHER,
    END_TO_END,
    INDEPENDENT,
    LATENCY_S,
    RANKS,
    RESIDENT,
    SCOPE,
    SHARDING,
    UNSHARDED,
    WORK_SHARE,
    AutoShardConfig,
    Scope,
    Sharding,
)
from benchkit.suites.auto_shard.workloads import COMMUNICATE, COMPUTE, ChainWorkload, Phase


@dataclass(frozen=True)
class ShardingChoice:
    sharding: Sharding
    devices: int
    scope: Scope

    @property
    def labels(self) -> dict[str, str | int | float]:
        return {SHARDING: str(self.sharding), RANKS: self.devices, SCOPE: str(self.scope)}

    @property
    def regions(self) -> tuple[str, ...]:
        phases = Phase if self.end_to_end else (COMPUTE, COMMUNICATE)
        return tuple(map(str, phases))

    @property
    def end_to_end(self) -> bool:
        return self.scope == END_TO_END

    @property
    def has_whole_workload(self) -> bool:
        return self.sharding in (UNSHARDED, INDEPENDENT)


def plan_details(planner: ShardPlanner, plan: ShardPlan, sharding: Sharding) -> Details:
    if plan.devices == 1:
        return {}
    values: dict[str, object] = {
        "plan": str(plan),
        WORK_SHARE: plan.busiest_flops * plan.devices / planner.workload.flops,
        CREATES_WHOLE: planner.creates_whole(plan),
    }
    if sharding == DISPATCHER:  # the cost of its messages is not measured
        return values
    values[LATENCY_S] = plan.latency_s
    values[PREDICTED_S] = plan.total_s
    for phase, seconds in plan.seconds.items():
        values[f"predicted_{phase}_s"] = seconds
    if sharding == AUTO:
        by_time = sorted(planner.alternatives().items(), key=lambda item: item[1])
        texts = [f"{first} {1e3 * seconds:.3g} ms" for first, seconds in by_time]
        values["alternatives"] = ", ".join(texts)
    return values


class AutoShard:
    """The cases of one job on one rank. All ranks make them together, in the same order."""

    def __init__(self, config: AutoShardConfig, rank: Rank) -> None:
        self.config = config
        self.rank = rank
        self.dtype: torch.dtype = getattr(torch, config.dtype)
        self.counts = sorted(config.devices)
        several = [count for count in self.counts if count > 1]
        self.lacking = p2p.dtensor_missing(rank.device) if several else ""
        if self.lacking:
            several = []
        groups = {count: rank.subgroup(range(count)) for count in several}
        self.meshes = {count: p2p.mesh_of(group, rank.device) for count, group in groups.items()}
        self.messages = rank.group("gloo") if DISPATCHER in config.shardings() else None
        self.costs = {count: self.costs_of(count) for count in self.meshes}

    def variants(self, scope: Scope) -> list[ShardingChoice]:
        """Return the variants of a scope, fewest devices first; the first is the baseline."""
        choices = []
        for devices in self.counts:
            if devices == 1:
                choices.append(ShardingChoice(UNSHARDED, 1, scope))
                continue
            choices += [
                ShardingChoice(sharding, devices, scope) for sharding in self.config.shardings()
            ]
            if scope == RESIDENT:
                choices.append(ShardingChoice(INDEPENDENT, devices, scope))
        return choices

    def cases(self) -> list[Case]:
        cases = []
        held_bytes = 0.0
        for scope in Scope:
            baseline: Case | None = None
            for variant in self.variants(scope):
                if self.lacking and not variant.has_whole_workload:
                    cases.append(Case(labels=variant.labels, unavailable=self.lacking))
                    continue
                planner = self.planner(variant, held_bytes)
                plan = make_plan(planner, variant.sharding)
                case = self.case(variant, planner, plan, held_bytes, baseline)
                if not case.skip:
                    held_bytes += planner.held_elements(plan) * self.dtype.itemsize
                cases.append(case)
                baseline = baseline or case
        return cases

    def costs_of(self, devices: int) -> ShardingCosts:
        rank, mesh = self.rank, self.meshes[devices]
        workload = self.config.workload_on(devices)
        return measure_costs(workload, devices, mesh, rank.device, self.dtype, rank.seconds_of)

    def case(
        self,
        variant: ShardingChoice,
        planner: ShardPlanner,
        plan: ShardPlan,
        held_bytes: float,
        baseline: Case | None,
    ) -> Case:
        workload = planner.workload
        itemsize = self.dtype.itemsize
        needed_bytes = held_bytes + plan.elements * itemsize
        needed_bytes += workload.checking_bytes(itemsize, planner.costs.devices)
        if shortage := self.rank.memory_shortage(needed_bytes, workload.host_bytes(itemsize)):
            return Case(labels=variant.labels, skip=shortage)
        copies = variant.devices if variant.sharding == INDEPENDENT else 1
        work = Work(
            useful_flops=workload.flops * copies, executed_flops=plan.executed_flops * copies
        )
        case = Case(
            labels=variant.labels,
            baseline=baseline,
            ranks=variant.devices,
            estimator=SPAN if self.rank.device.type == "cpu" else SLOWEST_RANK,
            regions=variant.regions,
            is_component=variant.sharding == INDEPENDENT,
            work=work,
            details=partial(plan_details, planner, plan, variant.sharding),
            unchecked=""
            if variant.has_whole_workload
            else unseen_devices(workload, variant.devices),
        )
        if self.rank.index >= variant.devices:
            return case
        program = self.program(workload, plan, variant)
        return replace(case, step=program.step, verify=program.verify)

    def program(
        self, workload: ChainWorkload, plan: ShardPlan, variant: ShardingChoice
    ) -> ChainProgram:
        index, seed = self.rank.index % plan.devices, self.rank.seed
        job = workload, plan, self.rank.device, self.dtype, index, seed, variant.end_to_end
        if plan.devices == 1:
            return ChainProgram(*job)
        if variant.sharding == DISPATCHER:
            return Dispatched(*job, group=self.messages)
        mesh = self.meshes[variant.devices]
        assert mesh is not None  # this rank takes part
        return Sharded(*job, mesh=mesh)

    def planner(self, variant: ShardingChoice, held_bytes: float) -> ShardPlanner:
        itemsize = self.dtype.itemsize
        if variant.has_whole_workload:
            workload = self.config.workload_on(1)
            costs = costs_of_one(itemsize)
        else:
            workload = self.config.workload_on(variant.devices)
            costs = self.costs[variant.devices]
        free = self.rank.available_bytes / self.rank.sharers
        free -= held_bytes + workload.checking_bytes(itemsize, costs.devices)
        return ShardPlanner(workload, costs, variant.end_to_end, free / itemsize)


def make_plan(planner: ShardPlanner, sharding: Sharding) -> ShardPlan:
    if planner.costs.devices == 1:
        return planner.everywhere()
    return planner.best() if sharding == AUTO else planner.axis0()


def cases_of(config: AutoShardConfig, rank: Rank) -> list[Case]:
    return AutoShard(config, rank).cases()
