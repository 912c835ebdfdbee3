"""Planted points on their way through benchkit: composed, checked, measured, recorded, and read by analysis."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

import analysis
import pandas as pd
from analysis.records.harvest import harvest
from analysis.table.combine import combine
from benchkit.api.keys import RunConfig
from benchkit.config import compose, hydra_internals
from benchkit.config.compose import PointComposer
from benchkit.point.agent_group import AgentGroup
from benchkit.point.point import Point, run_and_report
from benchkit.point.ranks import ReusableRanks
from benchkit.record.record import HARMLESS, Record
from benchkit.sweep.sweeper import require_effect
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.utils import setup_globals
from hydra.types import RunMode

from tests.support import configs
from tests.support.cli import ROOT
from tests.support.planted.oracle import History, Plant, Truth
from tests.support.planted.world import Stage

GPUS = ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]
RUNS_DIFFER = 0.07
"""By which share of its time each run of a sweep takes longer than the one before."""


@cache
def composer() -> tuple[ConfigLoaderImpl, PointComposer]:
    """What composes the points of sweeps, once per choice of groups; it is kept, since that takes the time."""
    compose.register()
    setup_globals()
    loader = ConfigLoaderImpl(create_config_search_path(str(ROOT / "conf")))
    tests = f"hydra.searchpath=[file://{ROOT}/tests/conf]"
    return loader, PointComposer(loader, loader.load_configuration("config", [tests], run_mode=RunMode.MULTIRUN))


def checked(overrides: Sequence[str]) -> RunConfig:
    """Compose and check a point; raise what the command line would refuse it for."""
    loader, points = composer()
    config = points.point(hydra_internals.parse(loader, overrides), 0).config
    require_effect(overrides, [config])
    return config


def agents() -> AgentGroup:
    """The only agent, on a host with cores and GPUs enough for all ranks."""
    return configs.agent_group("n0", gpus=[GPUS], cores=[list(range(8))])


@dataclass
class PlantedPoint:
    """A point that has run.

    Attributes:
        kind: its overrides without a seed: points of equal kind are repetitions of each other.
        histories: what happened, in the order of the runs of its ranks.
    """

    folder: Path
    kind: str
    record: Record
    histories: list[History]

    @cached_property
    def truth(self) -> Truth:
        together, *others = self.histories
        fresh = next((history for history in others if history.is_fresh), None)
        alone = [history for history in others if history.is_alone]
        return Truth(together, alone, fresh, [case.details for case in self.record.cases])


@dataclass
class Sweep:
    """The points of a folder."""

    folder: Path
    points: list[PlantedPoint] = field(default_factory=list)

    def table(self) -> pd.DataFrame:
        """As `analysis.load` returns it."""
        return analysis.load(self.folder)

    @cached_property
    def combined(self) -> pd.DataFrame:
        """As combined.csv and the first screen have it."""
        return combine(harvest([self.folder]).rows)

    def point_at(self, path: str) -> PlantedPoint:
        """The point of a record."""
        [found] = [point for point in self.points if str(point.folder) == str(Path(path).parent)]
        return found


class Failed(Exception):
    """A planted point neither ends well nor lacks anything here."""


def run(stage: Stage, folder: Path, points: Sequence[Sequence[str]], plants: Sequence[Plant], repeat: int = 1) -> Sweep:
    """Measure points, each a list of overrides, `repeat` times, in one sweep.

    Args:
        plants: that of each point; of a single one all points have copies.

    Raises:
        ConfigError, HydraException: the check refuses a point.
        Failed: a point does.
    """
    shutil.rmtree(folder, ignore_errors=True)
    sweep = Sweep(folder)
    own = list(plants) * (len(points) if len(plants) == 1 else 1)
    checked_points = [checked([*overrides, f"repeat={repeat}"]) for overrides in points]
    with ReusableRanks(agents()) as kept:
        for repetition in range(repeat):
            factor = 1 + RUNS_DIFFER * repetition
            for number, (config, overrides, plant) in enumerate(zip(checked_points, points, own, strict=True)):
                stage.plant = replace(plant, run_factor=plant.run_factor * factor)
                place = folder / (f"{number}_repeat{repetition}" if repetition else str(number))
                sweep.points.append(run_one(stage, Point(config, place, list(overrides), repetition=repetition), kept))
    return sweep


def run_one(stage: Stage, point: Point, kept: ReusableRanks) -> PlantedPoint:
    records: list[Record] = []
    stage.histories, stage.error = [], None
    status = run_and_report(point, records.append, kept)
    if status not in HARMLESS:
        why = records[0].error.message if records and records[0].error else "no record"
        raise Failed(f"{' '.join(point.overrides)}: {status}: {why}") from stage.error
    kind = " ".join(each for each in point.overrides if not each.startswith("seed="))
    return PlantedPoint(point.folder, kind, records[0], stage.histories)
