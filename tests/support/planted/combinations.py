"""Measures a combination of the axes: its overrides, what is planted, and what must hold beside the figures."""

from dataclasses import dataclass, field
from pathlib import Path

from tests.support.planted import compare, runs
from tests.support.planted.axes import AXES, SMALLEST, Combination
from tests.support.planted.compare import Comparison
from tests.support.planted.oracle import Plant
from tests.support.planted.runs import PlantedPoint, Sweep
from tests.support.planted.world import Stage

OF_SUITE = {
    "collective": ["data_size=[1KiB,4KiB]"],
    "ring_attention": ["strategies=[reference,even,uneven,online]"],  # the first one runs at full speed
    "tp_columnwise": [f"implementations.{name}=null" for name in ("pipeline", "p2p_pipeline", "p2p_comm_only")],
    "tp_rowwise": [f"implementations.{name}=null" for name in ("pipeline", "p2p_pipeline", "p2p_comm_only")],
    "transformer": ["model.vocab_size=64"],
}
"""By suite: more cases than its smallest configuration has, where it has a single one, or fewer."""
VARIANTS = {
    "collective": ["", "async_op=true"],
    "compile": ["", "compiler=aot_eager"],
    "transformer": ["", "parallel=fsdp", "parallel=none"],
}
"""By suite: the settings of its variants, which take turns where there are fewer than the axis has."""
CLOCKS = {
    "one": {},
    "two": {"num_hosts": 2, "offset_s": 3.0, "uncertainty_s": 1e-6},
    "two rough": {"num_hosts": 2, "offset_s": 3.0, "error_s": 0.0015, "uncertainty_s": 0.002},
}
LAUNCH_S = {"short": 2e-5, "long": 2e-3}
TARGETS = {
    "fixed": ["measure.target_rel_ci=null", "measure.max_warmup_seconds=0"],
    "adaptive": ["measure.target_rel_ci=0.02", "measure.max_warmup_seconds=1"],
}
FEW = ["measure.min_blocks=7", "measure.block_seconds=0.01", "measure.max_seconds=100"]
"""Turns as short as they can be, and no end by the time that a case takes."""


@dataclass(frozen=True)
class Settings:
    """How a combination is measured: the overrides of each point, what is planted in all of them, and how often."""

    points: list[list[str]]
    plant: Plant = field(default_factory=Plant)
    repeat: int = 1


def settings_of(chosen: Combination) -> Settings:
    suite = chosen["suite"]
    overrides = [
        f"+suite={SMALLEST}{suite}", f"hardware={chosen['device']}", *ranks_of(suite, chosen["ranks"]),
        *OF_SUITE.get(suite, []), *variant_of(chosen), f"ranks={chosen['processes']}",
        f"hardware.slowdown={slowdown_of(chosen)}", *measure_of(chosen),
    ]  # fmt: skip
    plant = Plant(
        noise=chosen["noise"], slow_rank=chosen["slow_rank"], skew_s=chosen["skew"],
        launch_s=LAUNCH_S[chosen["launch"]], **CLOCKS[chosen["hosts"]],
    )  # fmt: skip
    points = [overrides, [*overrides, "seed=1"]] if chosen["processes"] == "reuse" else [overrides]
    return Settings(points, plant, chosen["repeat"])


def variant_of(chosen: Combination) -> list[str]:
    variants = VARIANTS.get(chosen["suite"], [""])
    number = AXES["variant"].index(chosen["variant"])
    return variants[number % len(variants)].split()


def ranks_of(suite: str, ranks: int) -> list[str]:
    if suite == "auto_shard":
        return [f"devices={[1, ranks] if ranks > 1 else [1]}".replace(" ", "")]
    return [f"world_size={ranks}"]


def slowdown_of(chosen: Combination) -> str:
    first = [2] + [1] * (chosen["ranks"] - 1)
    return {"none": "1", "last": "2", "first": str(first).replace(" ", "")}[chosen["slowdown"]]


def measure_of(chosen: Combination) -> list[str]:
    is_cold = chosen["mode"] == "cold"
    return [
        *TARGETS["fixed" if is_cold else chosen["stop"]], f"measure.warmup_iterations={0 if is_cold else 2}",
        f"measure.mode={chosen['mode']}",
        f"measure.calls_per_sample={chosen['calls']}",
        f"measure.max_iterations={chosen['samples']}", f"measure.alone={chosen['alone']}",
        *(["measure.cold_l2=true"] if chosen["cold_l2"] == "true" else []), *FEW,
    ]  # fmt: skip


def measure(stage: Stage, chosen: Combination, folder: Path) -> Comparison:
    """Measure a combination and hold all that is shown against what was planted."""
    settings = settings_of(chosen)
    sweep = runs.run(stage, folder, settings.points, [settings.plant], settings.repeat)
    found = compare.compare(sweep)
    for point in sweep.points:
        compare_calls(point, chosen, found)
        compare_num_samples(point, chosen, found)
    compare_reuse(sweep, chosen, found)
    return found


def compare_calls(point: PlantedPoint, chosen: Combination, found: Comparison) -> None:
    """A latency is of single calls; all other cases make as many calls as are configured."""
    for case in point.record.cases:
        if case.samples_s:
            is_latency = case.labels.get("timing") == "latency"
            if is_latency or chosen["calls"] not in (1, "auto"):
                planted = 1 if is_latency else chosen["calls"]
                where = compare.name_of(point, case.labels)
                found.hold(where, "calls after one barrier", planted, case.calls_per_sample, 0)


def compare_num_samples(point: PlantedPoint, chosen: Combination, found: Comparison) -> None:
    """Without a target a case has all its samples; with one it has fewer only where that is met."""
    for case, own_s in zip(point.record.cases, point.truth.times, strict=True):
        if own_s and (chosen["stop"] == "fixed" or chosen["mode"] == "cold" or case.stopped_by != "target_rel_ci"):
            found.hold(compare.name_of(point, case.labels), "samples", chosen["samples"], len(own_s), 0)


def compare_reuse(sweep: Sweep, chosen: Combination, found: Comparison) -> None:
    """Ranks that stay have measured the points before; others none. A graph that failed ends them."""
    if chosen["mode"] == "graph":
        return
    for number, point in enumerate(sweep.points):
        use = point.record.rank_use
        before = number if chosen["processes"] == "reuse" else 0
        found.hold(point.record.suite, "points before", before, use.points_before if use else None, 0)
