"""Ranks that stay from point to point, and the check whether that changes what is measured."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchkit.api.groups import COLD
from benchkit.api.schema import REUSE, RunConfig
from benchkit.point.agents import AgentGroup
from benchkit.point.local_ranks import LocalRanks, fresh_ranks
from benchkit.point.placement import Placement

FRESH_EVERY = 10
"""Of the points whose ranks have measured another one, the first and then one in so many is
measured in fresh ranks, too."""


@dataclass
class KeptRanks:
    """The ranks that stay for the next points, if there are any.

    All agents go through the points in step and decide alike.

    Attributes:
        group: of the agents.
        num_reused: number of points so far whose ranks had measured another one.
        num_checked: number of those that fresh ranks have measured, too.
    """

    group: AgentGroup
    num_reused: int = 0
    num_checked: int = 0
    _held: ExitStack = field(default_factory=ExitStack)
    _ranks: LocalRanks | None = None
    _world: Any = None

    def __enter__(self) -> "KeptRanks":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @contextmanager
    def for_point(self, config: RunConfig, plan: Placement) -> Iterator[LocalRanks]:
        """Provides the ranks of a point while the context lasts; all agents call it together.

        Idle ranks end before a point of another world begins, since they hold memory.
        """
        world = world_of(config, plan)
        if world != self._world:
            self.end()
        if not is_reused(config):
            with fresh_ranks(self.group) as ranks:
                yield ranks
            return
        if self._ranks is None:
            self._ranks = self._held.enter_context(fresh_ranks(self.group))
            self._world = world
        try:
            yield self._ranks
        except BaseException:
            self.end()
            raise
        if not self._ranks.may_stay:
            self.end()
        elif self._ranks.num_tasks > 1:
            self.num_reused += 1

    @property
    def idle_pids(self) -> tuple[int, ...]:
        """The process numbers of the ranks of this agent that stay."""
        return self._ranks.pids if self._ranks else ()

    def is_check_due(self) -> bool:
        """Returns whether the point just measured is to be measured in fresh ranks, too."""
        return self.num_reused > FRESH_EVERY * self.num_checked

    def end(self) -> None:
        """Ends the ranks that stay."""
        self._ranks = self._world = None
        self._held.close()


def is_reused(config: RunConfig) -> bool:
    """Returns whether the ranks of a point may stay for the next one.

    By default they do on GPUs, where a CUDA context and the start of NCCL take seconds. A repeated
    run is independent of the others only in fresh ranks, a profiler sees one process per point, and
    only a fresh rank has first calls.
    """
    if config.measure.mode == COLD:
        return False
    if config.ranks == "auto":
        on_gpus = config.hardware.device == "cuda"
        return on_gpus and config.repeat == 1 and config.profile is False
    return config.ranks == REUSE


def world_of(config: RunConfig, plan: Placement) -> tuple[Any, ...]:
    """Returns what must be equal for two points to run in the same ranks."""
    return (
        config.suite,
        config.backend,
        config.hardware,
        config.start_method,
        config.private_network,
        config.timeout_s,  # the groups have it
        plan.threads,
        plan.slowdown,
        plan.places,
    )
