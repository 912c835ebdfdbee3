"""Ranks as greenlets of one process, each with a clock of its own and the stream of a GPU, and how they meet."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import greenlet
import torch
from benchkit.api import regions
from benchkit.rank.assignment import Assignment

from tests.support.planted.oracle import REGION_SHARES, History, PlantedCase, Window


class TorchModes:
    """Settings of a thread that contexts of torch change and set back."""

    def __init__(self) -> None:
        sdp = torch.backends.cuda
        self.has_gradients = torch.is_grad_enabled()
        self.kernels = {
            sdp.enable_flash_sdp: sdp.flash_sdp_enabled(), sdp.enable_math_sdp: sdp.math_sdp_enabled(),
            sdp.enable_mem_efficient_sdp: sdp.mem_efficient_sdp_enabled(),
            sdp.enable_cudnn_sdp: sdp.cudnn_sdp_enabled(),
        }  # fmt: skip

    def restore(self) -> None:
        torch.set_grad_enabled(self.has_gradients)
        for enable, is_enabled in self.kernels.items():
            enable(is_enabled)


class VirtualRank(greenlet.greenlet):
    """One rank of a run.

    Attributes:
        now_s: on its host's process, in true time.
        stream_s: when its GPU has done what is queued.
        factor: by which its throttle slows it at this moment.
        captured: cases whose calls a graph takes up; None while calls are made.
        window: of the sample that it takes; None between samples.
        num_calls: that it has made of each case.
    """

    def __init__(self, index: int, began_s: float, run: Callable[[], Any]) -> None:
        super().__init__(run)
        self.index = index
        self.now_s = self.stream_s = began_s
        self.factor = 1.0
        self.is_timing_block = False
        self.captured: list[PlantedCase] | None = None
        self.window: Window | None = None
        self.num_calls: dict[int, int] = {}
        self.markers: list[regions.Marker] = [regions.mark_nothing]
        self.modes = TorchModes()

    @property
    def ready_s(self) -> float:
        """When its GPU could begin what its host queues now."""
        return max(self.stream_s, self.now_s)


@dataclass
class World:
    """One run of the ranks of a point; `current` is the rank that runs now."""

    history: History
    assignments: Sequence[Assignment]
    began_s: float
    sessions: dict[int, Any]
    ranks: list[VirtualRank] = field(default_factory=list)
    current: VirtualRank = field(init=False)
    _ready: deque[VirtualRank] = field(default_factory=deque)
    _meetings: dict[Any, dict[int, Any]] = field(default_factory=dict)
    _num_met: dict[Any, int] = field(default_factory=dict)

    def run(self, target: Callable[[Assignment], Any]) -> Any:
        """Run all ranks and return what rank 0 returns; raise what the first rank to fail raises."""
        for index, assignment in enumerate(self.assignments):
            self.ranks.append(VirtualRank(index, self.began_s, partial(target, assignment)))
        self._ready.extend(self.ranks)
        results, outside = {}, TorchModes()
        try:
            while self._ready:
                self.current = self._ready.popleft()
                result = self.switch_to(self.current)
                if self.current.dead:
                    results[self.current.index] = result
            if len(results) < len(self.ranks):
                raise RuntimeError("ranks do not meet equally often")
            return results[0]
        finally:
            for rank in self.ranks:
                if not rank.dead:
                    self.current = rank
                    rank.throw(greenlet.GreenletExit)
            outside.restore()

    def switch_to(self, rank: VirtualRank) -> Any:
        """Let a rank run until it waits or ends, with the settings of torch that it left: contexts of ranks overlap."""
        outside = TorchModes()
        rank.modes.restore()
        try:
            return rank.switch()
        finally:
            rank.modes = TorchModes()
            outside.restore()

    @property
    def ended_s(self) -> float:
        return max(rank.now_s for rank in self.ranks)

    def meet(self, place: str | int, value: Any, num_ranks: int | None = None) -> list[Any]:
        """Wait for all ranks, or the first ones, to come to a place; return the value of each: [rank]."""
        rank = self.current
        num = self._num_met[place, rank.index] = self._num_met.get((place, rank.index), 0) + 1
        values = self._meetings.setdefault((place, num), {})
        values[rank.index] = value
        expected = num_ranks or len(self.ranks)
        if len(values) < expected:
            rank.parent.switch()
        else:
            self._ready.extend(self.ranks[index] for index in values if index != rank.index)
            del self._meetings[place, num]
        return [values[index] for index in range(expected)]

    def meet_in_time(self, place: str, value: Any = None) -> list[Any]:
        """As `meet`, for all ranks; none leaves before the last has come."""
        met = self.meet(place, (self.current.now_s, value))
        self.current.now_s = max(now_s for now_s, _ in met)
        return [value for _, value in met]

    def call(self, case: PlantedCase) -> None:
        """Make a call of a case, as the current rank."""
        rank = self.current
        if rank.captured is not None:
            rank.captured.append(case)
            return
        takes_part = rank.index < case.ranks
        number = rank.num_calls.get(case.number, -1) + 1
        rank.num_calls[case.number] = number
        window = rank.window
        is_first = window is not None and not window.num_made
        seconds = self.history.call_s(case, rank.index, number, is_first) * rank.factor if takes_part else 0.0
        if window:
            if is_first:
                window.case, window.factor, window.began_s = case.number, rank.factor, rank.now_s
            window.num_made += 1
            window.busy_s += seconds
        if self.history.device == "cuda" and not case.on_host:
            self.queue(case, seconds, takes_part)
        else:
            if case.waits and takes_part:
                rank.now_s = max(self.meet(case.number, rank.now_s, case.ranks))
            for spent in self.in_regions(case, seconds):
                rank.now_s += spent

    def queue(self, case: PlantedCase, seconds: float, takes_part: bool) -> None:
        """Make a call on the current rank's GPU."""
        rank, plant, window = self.current, self.history.plant, self.current.window
        if takes_part:
            rank.now_s += plant.launch_s
        rank.stream_s = rank.ready_s
        if case.waits and takes_part:
            rank.stream_s = max(self.meet(case.number, rank.stream_s, case.ranks))
        began_s = rank.stream_s
        for spent in self.in_regions(case, seconds):
            rank.stream_s += spent
        if plant.waits_for_gpu:
            rank.now_s = rank.ready_s
        if window:
            window.gpu_began_s = min(window.gpu_began_s, began_s)
            window.gpu_ended_s = rank.stream_s
            window.queued_s = rank.now_s

    def in_regions(self, case: PlantedCase, seconds: float) -> Iterator[float]:
        """Yield the parts of a call's time, each within the region that it is spent in; the last is in none."""
        window = self.current.window
        for number, name in enumerate(case.regions):
            spent = seconds * REGION_SHARES[number % len(REGION_SHARES)]
            seconds -= spent
            if window:
                window.regions_s[name] = window.regions_s.get(name, 0.0) + spent
            with regions.region(name):
                yield spent
        yield seconds
