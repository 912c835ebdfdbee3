"""The record of one point: what ran, how it ended and every sample that was taken.

An agent writes the record and `analysis` reads it, so this package imports neither torch nor Hydra.
docs/record.md documents the keys. SCHEMA_VERSION rises when a key changes its meaning or goes.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from benchkit.record.case import CaseRecord
from benchkit.record.context import Comparison, NoiseFloor
from benchkit.record.devices import RankDevice, TorchSettings
from benchkit.record.environment import AgentReport, Environment
from benchkit.record.numbers import (
    Amount,
    Count,
    Figure,
    NumRanks,
    RankNumber,
    RepetitionNumber,
    Seconds,
)
from benchkit.record.rank_use import RankUse
from benchkit.record.settings import Configured, Settings

SCHEMA_VERSION = 3


@dataclass(frozen=True, kw_only=True)
class ErrorReport:
    """Why a point is not ok.

    Attributes:
        message: of the exception, or what happened.
        rank: that failed; None where no single rank is to blame.
        host: of that rank.
        type: class of the exception; None without one.
        signal: number of the signal that ended the rank; None without one.
        traceback: of the exception; None without one.
        log: file beside the record with the output of the rank; None without a rank.
    """

    message: str
    rank: RankNumber | None = None
    host: str = ""
    type: str | None = None
    signal: int | None = None
    traceback: str | None = None
    log: str | None = None


@dataclass(frozen=True, kw_only=True)
class SlowdownReport:
    """How much slower ranks were: by rank, 1 at full speed.

    Attributes:
        asked: the factor asked for of each rank.
        mechanism: what slowed ranks down, joined by "+"; None where nothing did.
        measured: the factor measured of each rank; None where there is nothing to measure against.
        multiprocessors: of its GPU that each rank has a share of; None without shares (MPS).
    """

    asked: list[Figure] = field(default_factory=list)
    mechanism: str | None = None
    measured: list[Figure] | None = None
    multiprocessors: list[Count] | None = None


@dataclass(frozen=True)
class StartClock:
    """How starts on several hosts are compared.

    Attributes:
        estimator: shared_clock or min_rtt_line (launch/agents/clock_sync.py).
        uncertainty_s: how wrong the starts may be, in seconds.
    """

    estimator: str
    uncertainty_s: Seconds


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the end of its ranks, or of its agents, adds to the record of a point."""

    status: str
    error: ErrorReport | None = None
    cases: list[CaseRecord] = field(default_factory=list)
    clock: str | None = None
    slowdown: SlowdownReport | None = None
    warnings: list[str] = field(default_factory=list)
    phases_s: dict[str, float] = field(default_factory=dict)
    start_clock: StartClock | None = None
    private_network: bool | None = None
    alone: list[CaseRecord] = field(default_factory=list)
    fresh: list[CaseRecord] = field(default_factory=list)
    rank_use: RankUse | None = None
    rank_devices: list[RankDevice] = field(default_factory=list)
    torch_settings: TorchSettings = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything about one point; docs/record.md explains each key."""

    schema_version: int = SCHEMA_VERSION
    point_id: str
    suite: str
    title: str
    status: str
    error: ErrorReport | None = None
    config: dict[str, Any]
    overrides: list[str] = field(default_factory=list)
    attempt: Count = 1
    repetition: RepetitionNumber = 0
    resumed_with: dict[str, list[str]] = field(default_factory=dict)
    comparison: Comparison | None = None
    world_size: NumRanks
    threads_per_rank: Count
    cores_per_rank: Amount
    launched_by: str
    agents: list[AgentReport]
    rank_devices: list[RankDevice] = field(default_factory=list)
    torch_settings: TorchSettings = field(default_factory=dict)
    slowdown: SlowdownReport = SlowdownReport()
    warnings: list[str] = field(default_factory=list)
    clock: str | None = None
    start_clock: StartClock | None = None
    private_network: bool | None = None
    started_at: str
    finished_at: str | None = None
    phases_s: dict[str, Seconds] = field(default_factory=dict)
    environment: Environment
    noise_floor: NoiseFloor | None = None
    cases: list[CaseRecord] = field(default_factory=list)
    alone: list[CaseRecord] = field(default_factory=list)
    fresh: list[CaseRecord] = field(default_factory=list)
    rank_use: RankUse | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for a reference to a case that does not exist."""
        for position, case in enumerate(self.cases):
            components = case.components
            for other in (case.baseline, components.computation, components.communication):
                if other is not None and other >= len(self.cases):
                    raise ValueError(f"cases[{position}] refers to case {other}, which is missing")

    @functools.cached_property
    def settings(self) -> Settings:
        """The typed part of `config`.

        Raises:
            ValueError: `config` lacks a key of it, or a value has a wrong type.
        """
        return msgspec.convert({"config": self.config}, Configured).config

    def status_of(self, case: CaseRecord) -> str:
        """Returns how a case ended: as its point, unless some case is why that is not ok."""
        if self.status == "ok" or any(each.status == self.status for each in self.cases):
            return case.status
        return self.status

    def ended(self, outcome: Outcome) -> "Record":
        """Returns this record with how its ranks ended; warnings and phases are added."""
        return replace(
            self,
            status=outcome.status,
            error=outcome.error,
            cases=outcome.cases,
            clock=outcome.clock,
            slowdown=outcome.slowdown or self.slowdown,
            warnings=[*self.warnings, *outcome.warnings],
            phases_s=self.phases_s | outcome.phases_s,
            start_clock=outcome.start_clock,
            private_network=outcome.private_network,
            alone=outcome.alone,
            fresh=outcome.fresh,
            rank_use=outcome.rank_use,
            rank_devices=outcome.rank_devices,
            torch_settings=outcome.torch_settings,
        )

    def finish(self, at: str, phases_s: Mapping[str, float]) -> "Record":
        """Returns this record with its end.

        Args:
            at: UTC, ISO 8601.
            phases_s: durations of the phases that only the agent knows, in seconds; `total` is of
                all but the wait for the host.
        """
        return replace(self, finished_at=at, phases_s={**self.phases_s, **phases_s})

    def to_json(self) -> bytes:
        """Returns the content of the record's file.

        Raises:
            TypeError, ValueError: `config` holds a value that JSON or Unicode lacks.
        """
        return msgspec.json.encode(self)
