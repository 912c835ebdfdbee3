"""Matrix programs on one device and sharded over several."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from benchkit.api.case import Case, Rank
from benchkit.api.keys import Planned, RunConfig, as_list, key
from benchkit.api.question import LEAST, TFLOP_PER_S, TIME, Comparison, Question
from benchkit.api.registry import cases_in, suite
from benchkit.api.sizes import ITEM_BYTES
from benchkit.errors import ConfigError
from benchkit.suites.auto_shard.planner import ShardPlanner, costs_of_one
from benchkit.suites.auto_shard.workloads import ChainWorkload, StrEnum, parse

SHARDING, RANKS, SCOPE = "sharding", "ranks", "scope"
WORK_SHARE, CREATES_WHOLE, LATENCY_S = "work_share", "creates_whole", "latency_s"
"""Details of a case on several devices.

WORK_SHARE: work of the busiest device over its even share. CREATES_WHOLE: whether a step creates an
operand whole on each device. LATENCY_S: predicted seconds of empty messages."""
STRONG, WEAK = "strong", "weak"


class Sharding(StrEnum):
    """The rule by which a workload is sharded.

    AUTO and AXIS0 are planners of DTensor, DISPATCHER is GT's architecture. With INDEPENDENT each
    device has a whole workload of its own.
    """

    UNSHARDED = "none"
    AUTO = "auto"
    AXIS0 = "axis0"
    DISPATCHER = "dispatcher"
    INDEPENDENT = "independent"


class Scope(StrEnum):
    """RESIDENT: operands and result stay on the devices. END_TO_END creates and fetches them."""

    RESIDENT = "resident"
    END_TO_END = "end_to_end"


UNSHARDED, AUTO, AXIS0, DISPATCHER, INDEPENDENT = Sharding
RESIDENT, END_TO_END = Scope
DTENSOR = "dtensor"
MOST_LAYERS = {"bfloat16": 4, "float16": 6, "float32": 14, "float64": 32}
"""Most layers of an MLP whose checked result is exact: values may triple per layer."""


@dataclass
class AutoShardConfig(RunConfig):
    probes: ClassVar[int] = 23

    devices: list[int] = key(
        "numbers of devices, each a rank, to compare", unit="ranks", at_least=1
    )
    workload: str = key("matmul_MxKxN, mlp_ROWSxWIDTHxWIDTH… or relu_ROWSxCOLUMNS")
    workloads: dict[str, list[str]] = key(
        "which ones to sweep over where none is given, by hardware.device", identity=False
    )
    scaling: str = key(
        "the same workload on all numbers of devices, or rows times devices",
        choices=(STRONG, WEAK),
    )
    dtype: str = key("element type", choices=tuple(MOST_LAYERS))
    engine: Any = key("who carries plans out, one or a list", choices=(DTENSOR, DISPATCHER))
    planner: Any = key("who plans for dtensor, one or a list", choices=(AUTO, AXIS0))

    def check(self) -> None:
        super().check()
        workload = self.workload_on(devices=1)
        if len(set(self.devices)) < len(self.devices) or not self.devices:
            raise ConfigError(f"devices={self.devices}: allowed are different numbers >= 1")
        most_devices = max(self.devices)
        if self.world_size == "auto" or int(self.world_size) < most_devices:
            raise ConfigError(
                f"world_size={self.world_size}: "
                f"allowed with devices={self.devices} is {most_devices}"
            )
        most_layers = MOST_LAYERS[self.dtype]
        if len(workload.weights) > most_layers:
            raise ConfigError(
                f"workload={self.workload}: "
                f"allowed with dtype={self.dtype} are {most_layers} layers"
            )

    def idle_keys(self) -> dict[str, str]:
        reasons = super().idle_keys()
        if DTENSOR not in as_list(self.engine):
            reasons["planner"] = f"engine={DISPATCHER} plans by itself"
        if max(self.devices) == 1:
            reasons |= dict.fromkeys(("planner", "engine"), "devices=[1] shards nothing")
        return reasons

    def planned(self, world_size: int) -> list[Planned]:
        cases = []
        for scope in Scope:
            for devices in sorted(self.devices):
                workload = self.workload_on(devices)
                items = workload.rows * (workload.widths[0] + workload.widths[-1])
                touched_bytes = float(ITEM_BYTES[self.dtype] * items)
                case = Planned(labels=f"{SCOPE}={scope}", group=scope, copied_bytes=touched_bytes)
                shardings = [UNSHARDED] if devices == 1 else [*self.shardings(), INDEPENDENT]
                if devices > 1 and scope == END_TO_END:
                    shardings.remove(INDEPENDENT)
                for sharding in shardings:
                    share = 1 if sharding == INDEPENDENT else devices
                    cases.append(replace(case, flops=workload.flops / share))
        return cases

    def needed_bytes(self, world_size: int) -> float:
        """Return the bytes of a whole workload on one device; other plans depend on costs."""
        itemsize, workload = ITEM_BYTES[self.dtype], self.workload_on(1)
        planner = ShardPlanner(workload, costs_of_one(itemsize), end_to_end=False)
        return planner.everywhere().elements * itemsize + workload.checking_bytes(itemsize, 1)

    def host_bytes(self, world_size: int) -> float:
        return self.workload_on(max(self.devices)).host_bytes(ITEM_BYTES[self.dtype])

    def workload_on(self, devices: int) -> ChainWorkload:
        """Return the workload; with scaling=weak each device brings as many rows."""
        workload = parse(self.workload)
        return workload.times(devices) if self.scaling == WEAK else workload

    def shardings(self) -> list[Sharding]:
        engines = as_list(self.engine)
        planners = as_list(self.planner) if DTENSOR in engines else []
        return [Sharding(name) for name in (*planners, *engines) if name != DTENSOR]


CASES = "benchkit.suites.auto_shard.cases"
PRELOAD = (CASES,)


QUESTION = Question(
    problem=(SCOPE, "workload", "scaling", "dtype"),
    comparisons=(
        Comparison(
            factors=(RANKS, SHARDING),
            baseline={RANKS: LEAST},
            focus={SHARDING: AUTO},
        ),
    ),
    metrics=(TIME, TFLOP_PER_S),
    scaling_columns=("workload",),
    replicates=("world_size", "engine", "planner"),
    words={
        RANKS: "{} devices",
        f"{RANKS}=1": "1 device",
        f"{SHARDING}={UNSHARDED}": "",
        f"{SCOPE}={END_TO_END}": "end to end",
        "scaling": "{} scaling",
    },
    terms={
        "device": "a rank",
        "resident": "operands stay on the devices",
        "end to end": "with creating and fetching them",
    },
    next_steps={"": "Where the time goes, phase by phase: auto_shard.md of the report"},
)


@suite
def auto_shard(config: AutoShardConfig, rank: Rank) -> list[Case]:
    """Workloads on one device and on several, as a planner shards them."""
    return cases_in(CASES, config, rank)
