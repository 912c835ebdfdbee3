"""A world in virtual time: all ranks of a point run in this process, and each call takes what was planted.

Real are the check of a configuration, a suite's cases, all that a rank does with them (calibration, order of
verification, hooks, capture of graphs, timer, sampler, clocks), all that an agent does with a point, the record's file
and all of analysis. `install` names what is replaced.
"""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
from benchkit.api import p2p, regions
from benchkit.api.case import CapturableStep, Case, noop
from benchkit.measure import clocks, timer
from benchkit.measure.disturbance import COUNTERS
from benchkit.point import point as point_module
from benchkit.point.agent_group import AgentGroup
from benchkit.point.ranks import LocalRanks
from benchkit.rank import main, run_cases, sampling_hooks, session
from benchkit.rank.assignment import Assignment
from benchkit.rank.backends import ControlGroup
from benchkit.rank.devices import Devices
from benchkit.rank.prober import ProbedCalls, Prober
from benchkit.record.record import RankDevice, StartClock
from benchkit.suites.transformer import peak_flops
from launch.agents.clock import ESTIMATOR, SHARED, Offset
from launch.agents.host_lock import LOCK_VARIABLE
from launch.ranks import entry
from launch.ranks.watch import ProcessFailure, RankResults
from torch.testing._internal.distributed import fake_pg

from tests.support.planted.oracle import History, Plant, PlantedCase, Window
from tests.support.planted.virtual import VirtualRank, World

BEGAN_S = 1000.0
"""When the first ranks begin, and how long others begin after them."""
PAUSE_S = 0.01
PROBE_S = 1e-3
"""A probed call at full speed."""
FLUSH_S = 5e-5
"""A GPU's cache is flushed."""
CYCLES_PER_S = 1e9
FEW_TO_STOP = 20
"""Samples from which on a target may end a case: far fewer than outside, where each takes time."""


@dataclass
class Stage:
    """Where points are played: set `plant` before each one; `histories` tells what happened in all runs of ranks."""

    plant: Plant = field(default_factory=Plant)
    histories: list[History] = field(default_factory=list)
    here: World | None = None
    next_s: float = BEGAN_S
    error: Exception | None = None

    @property
    def world(self) -> World:
        assert self.here, "no ranks run"
        return self.here

    @property
    def rank(self) -> VirtualRank:
        return self.world.current

    def clock(self) -> float:
        """What the clock of a rank's host shows; outside of ranks that of agent 0."""
        if self.here is None:
            return self.next_s
        rank = self.here.current
        return rank.now_s + self.plant.clock_offset_s(rank.index, len(self.here.ranks))

    def run_ranks(self, local: LocalRanks, assignments: Sequence[Assignment]) -> RankResults:
        """Run the ranks of all hosts, in place of `LocalRanks.run`."""
        local.num_points += 1
        first = assignments[0]
        num_ranks = first.world_size
        self.join_group(num_ranks)
        offsets = [Offset(0.0, self.plant.measured_offset_s(rank, num_ranks)) for rank in range(num_ranks)]
        history = History(
            self.plant, num_ranks, first.config.hardware.device, first.config.measure.mode, first.slowdown,
            is_alone=first.only is not None, is_fresh=first.folder.name == "fresh",
        )  # fmt: skip
        self.histories.append(history)
        sessions = vars(local).setdefault("sessions", {})  # ranks that stay have one
        own = [replace(each, offset=offset) for each, offset in zip(assignments, offsets, strict=True)]
        self.here = World(history, own, self.next_s, sessions)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a rank's process has filters of its own
                report = self.here.run(main.run_rank)
        except Exception as error:
            self.error = error
            return RankResults(
                failure=ProcessFailure(self.rank.index, "exception", str(error), type=type(error).__name__)
            )
        finally:
            self.next_s, self.here = self.here.ended_s + PAUSE_S, None
        return RankResults(results={0: msgspec.json.decode(msgspec.json.encode(report))})

    def join_group(self, num_ranks: int) -> None:
        """Have a group of torch's of so many ranks, in which every collective returns at once."""
        if dist.is_initialized() and dist.get_world_size() == num_ranks:
            return
        self.leave_group()
        dist.init_process_group("fake", store=fake_pg.FakeStore(), rank=0, world_size=num_ranks)

    def leave_group(self) -> None:
        p2p.new_group.cache_clear()
        if dist.is_initialized():
            dist.destroy_process_group()

    def open_session(self, assignment: Assignment) -> "SessionHere":
        """The session of a rank, in place of `session.open_session`."""
        sessions, index = self.world.sessions, self.rank.index
        if index not in sessions:
            num_ranks = assignment.world_size
            known = Devices([RankDevice(device=assignment.config.hardware.device)] * num_ranks)
            group = ControlGroup(None, num_ranks)
            device, controller = torch.device("cpu"), session.make_controller(assignment)
            made = SessionHere(device, group, known, controller, timedelta(0), stage=self)
            sessions[index] = made
        return sessions[index]

    def build_cases(self, build: Callable[..., list[Case]], assignment: Assignment, *given: Any) -> list[Case]:
        """The cases of a suite, whose calls take what is planted and compute nothing."""
        cases = build(assignment, *given)
        history = self.world.history
        planted = [planted_case(case, cases, history, assignment.config.suite) for case in cases]
        for case, described in zip(cases, planted, strict=True):
            self.plant_in(case, described)
        if self.rank.index == 0:
            history.cases = planted
        return cases

    def plant_in(self, case: Case, described: PlantedCase) -> None:
        call = partial(self.make_call, described)
        is_capturable = isinstance(case.step, CapturableStep)
        step = replace(case.step, call=call) if is_capturable else call
        planted = {"step": step, "verify": make_one_call, "reset": nothing, "observe": nothing}
        for name, value in (planted | {"estimator": described.estimator}).items():
            object.__setattr__(case, name, value)  # a copy would lose what refers to it

    def make_call(self, described: PlantedCase) -> None:
        self.world.call(described)

    def take(self, prober: Prober, turn: ProbedCalls) -> float:
        """Seconds per call of probed calls, which are not made."""
        prober.peers.barrier()
        seconds = PROBE_S * self.rank.factor
        self.rank.now_s += seconds * turn.count
        return seconds

    def barrier(self, group: Any = None) -> None:
        """Ranks leave a barrier one after another."""
        self.world.meet_in_time("barrier")
        self.rank.now_s += self.plant.skew_s * self.rank.index

    def all_gather(self, into: list[torch.Tensor], mine: torch.Tensor, group: Any = None) -> None:
        for place, tensor in zip(into, self.world.meet_in_time("all_gather", mine), strict=True):
            place.copy_(tensor)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        rank = self.rank
        rank.is_timing_block = True
        try:
            yield
        finally:
            rank.is_timing_block = False

    @contextlib.contextmanager
    def sample(self, calls: int) -> Iterator[None]:
        """Write down what happens while a rank takes a sample."""
        rank = self.rank
        rank.window = window = Window(rank.index, calls, rank.now_s, is_block=rank.is_timing_block)
        try:
            yield
        finally:
            rank.window, window.ended_s = None, rank.now_s
            self.world.history.windows.append(window)


@dataclass
class SessionHere(session.RankSession):
    """A session in virtual time, whose groups over other backends are the job's own."""

    stage: Stage = field(kw_only=True)

    def side_group(self, name: str) -> None:
        return None

    def make_clock(self, offset: Offset, while_busy: Callable[[], object] = noop) -> clocks.Clock:
        if self.stage.world.history.device == "cpu":
            return WatchedHostClock(self.stage, offset.at)
        gpu = Gpu(self.stage)
        return WatchedCudaClock(self.stage, gpu, gpu.align, gpu.spin, False, while_busy)

    def differences_from_plan(self, assignment: Assignment) -> list[str]:
        return []  # cores and limits are those of this process, which nobody planned


class WatchedHostClock(clocks.HostClock):
    def __init__(self, stage: Stage, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.stage = stage

    def time(self, call: Callable[[], object], repeat: int, delay_s: float | None = 0.0) -> tuple[float, float]:
        with self.stage.sample(repeat):
            return super().time(call, repeat, delay_s)


class WatchedCudaClock(clocks.CudaClock):
    def __init__(self, stage: Stage, *arguments: Any) -> None:
        self.stage = stage
        super().__init__(*arguments)

    def now(self) -> float:  # type: ignore[override]  # the class has kept the host's function
        return self.stage.clock()

    def time(self, call: Callable[[], object], repeat: int, delay_s: float | None = 0.0) -> tuple[float, float]:
        with self.stage.sample(repeat):
            return super().time(call, repeat, delay_s)


@dataclass
class Gpu:
    """torch.cuda, as far as benchkit needs it, over the streams of virtual ranks."""

    stage: Stage

    nvtx = SimpleNamespace(range_push=lambda name: None, range_pop=lambda: None)

    def Event(self, enable_timing: bool) -> "Event":
        return Event(self.stage)

    def synchronize(self) -> None:
        self.stage.rank.now_s = self.stage.rank.ready_s

    def spin(self, cycles: int) -> None:
        rank = self.stage.rank
        rank.stream_s = rank.ready_s + cycles / CYCLES_PER_S
        if rank.window:
            rank.window.delay_s = cycles / CYCLES_PER_S

    def flush(self) -> None:
        self.stage.rank.stream_s = self.stage.rank.ready_s + FLUSH_S

    def align(self) -> None:
        """A collective on all GPUs, which the host queues and does not wait for."""
        rank = self.stage.rank
        rank.stream_s = max(self.stage.world.meet("alignment", rank.ready_s))
        if rank.window:
            rank.window.aligned_s = rank.stream_s - rank.window.delay_s

    def current_stream(self) -> SimpleNamespace:
        return SimpleNamespace(wait_stream=lambda other: None)

    Stream = current_stream

    def stream(self, stream: object) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    def CUDAGraph(self) -> SimpleNamespace:
        return SimpleNamespace(replay=None)

    @contextlib.contextmanager
    def graph(self, graph: SimpleNamespace, **_: Any) -> Iterator[None]:
        rank = self.stage.rank
        rank.captured = []
        yield
        [case], rank.captured = rank.captured, None
        graph.replay = partial(self.stage.make_call, case)


@dataclass
class Event:
    stage: Stage
    at_s: float = 0.0

    def record(self) -> None:
        self.at_s = self.stage.rank.ready_s

    def elapsed_time(self, end: "Event") -> float:
        return 1e3 * (end.at_s - self.at_s)


@dataclass
class PerfectThrottle:
    """Gives exactly the factor that it is set to."""

    stage: Stage
    mechanism: str = "duty_cycle"
    switchable: bool = True

    def apply(self, factor: float) -> None:
        self.stage.rank.factor = factor

    def release(self) -> None:
        self.stage.rank.factor = 1.0


@dataclass
class Markers:
    """The markers of regions of each rank, which share this process, in place of a list."""

    stage: Stage

    def append(self, marker: regions.Marker) -> None:
        self.stage.rank.markers.append(marker)

    def pop(self) -> regions.Marker:
        return self.stage.rank.markers.pop()

    def __getitem__(self, index: int) -> regions.Marker:
        return self.stage.rank.markers[index]


DO_NOT_WAIT = ("rank_speed", "matmul_lut", "pair_matrix", "compile")
"""Suites in which no rank waits for another within a call; in all others the ranks of a case do."""
LABELS_OF_NO_WAIT = {("sharding", "independent"), ("implementation", "compute_only")}
"""Cases of other suites in which no rank waits for another."""


def planted_case(case: Case, cases: Sequence[Case], history: History, suite: str) -> PlantedCase:
    """What the oracle is told of a case."""
    labels = dict(case.labels)
    ranks = case.ranks or history.num_ranks
    does_wait = suite not in DO_NOT_WAIT and LABELS_OF_NO_WAIT.isdisjoint(labels.items())
    parts = {"baseline": case.baseline, **vars(case.components)}
    positions = {name: None if part is None else cases.index(part) for name, part in parts.items()}
    work = {
        name: getattr(case.work, name) for name in ("payload_bytes", "bus_factor", "useful_flops", "executed_flops")
    }
    return PlantedCase(
        number=cases.index(case),
        labels=labels,
        ranks=ranks,
        names_ranks=case.ranks is not None,
        waits=ranks > 1 and does_wait,
        # Tensors are in the host's memory here, so that a suite chooses as on a CPU.
        estimator=case.estimator if history.device == "cpu" else "slowest_rank",
        regions=case.regions,
        unslowed=case.unslowed,
        on_host=case.on_host,
        includes_launches=case.includes_launches,
        **work,
        **positions,
    )


def make_one_call(call: Callable[[], object]) -> None:
    call()


def nothing(*_: object) -> None: ...


@contextlib.contextmanager
def planted_world() -> Iterator[Stage]:
    """Provide a stage for points; afterwards all is as it was."""
    stage = Stage()
    with pytest.MonkeyPatch.context() as patch:
        install(stage, patch)
        try:
            yield stage
        finally:
            stage.leave_group()


def install(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Replace what takes real time or needs processes: no other place patches benchkit."""

    def within(owner: Any, name: str, context: Callable[[], contextlib.AbstractContextManager[object]]) -> None:
        inner = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            with context():
                return inner(*arguments, **named)

        patch.setattr(owner, name, call)

    time = SimpleNamespace(perf_counter=stage.clock, monotonic=stage.clock, sleep=nothing)
    gpu = Gpu(stage)

    # The process: nothing that other runs left on this machine counts.
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        patch.setenv(name, os.devnull)
    # Its lock: no other run is waited for.
    patch.setenv(LOCK_VARIABLE, f"planted-{os.getpid()}")

    # torch.distributed: its `fake` group knows rank 0 alone; here each greenlet is a rank of its own.
    patch.setattr(dist, "get_rank", lambda group=None: stage.rank.index)
    # The backend: tensors are in the host's memory, which suites then send as over gloo.
    patch.setattr(dist, "get_backend", lambda group=None: "gloo")
    # Groups of some ranks: real ones would connect.
    patch.setattr(dist, "new_group", partial(fake_group, dist.new_group))
    # Barriers and gathering: ranks meet in virtual time, and have each other's values.
    patch.setattr(dist, "barrier", stage.barrier)
    patch.setattr(dist, "all_gather", stage.all_gather)

    # The host's clock: it shows the time of the virtual rank that reads it, or of agent 0.
    for module in (clocks, run_cases, point_module):
        patch.setattr(module, "time", time)

    # The agent's ranks: greenlets in place of processes.
    patch.setattr(LocalRanks, "run", lambda local, assignments: stage.run_ranks(local, assignments))
    # Hosts: the ranks of two hosts are one agent's.
    patch.setattr(point_module, "place_ranks", partial(placed_on_hosts, stage, point_module.place_ranks))
    # Offsets of clocks: planted, in place of messages between agents.
    patch.setattr(AgentGroup, "clock_offset", lambda group: Offset())
    patch.setattr(AgentGroup, "start_clock", lambda group, offset: start_clock(stage.plant))

    # The session of a rank: one per process would be that of all ranks.
    patch.setattr(main, "open_session", stage.open_session)
    # Throttles: one that slows virtual time.
    patch.setattr(session, "make_throttle", lambda *_: PerfectThrottle(stage))
    # Streams, threads and compilers: this process keeps its own.
    for name in ("protect_streams", "set_up_torch", "forget_point"):
        patch.setattr(main, name, nothing)
    # Notes to the agent: there is no pipe to one.
    patch.setattr(entry, "send_note", nothing)
    # Markers of regions: each rank has its own, although they share a process.
    patch.setattr(regions, "_marker", Markers(stage))

    # Cases: their calls take what is planted, and compute and check nothing.
    patch.setattr(main, "build_cases", partial(stage.build_cases, main.build_cases))
    # Probed calls: they take what is planted, too.
    patch.setattr(Prober, "time_turn", lambda prober, turn: stage.take(prober, turn))
    # The transformer's peak: the largest product, which is only probed, needs no large matrices.
    patch.setitem(peak_flops.SQUARE, "cpu", 512)

    # The GPU: graphs, ranges of nsys and the flush of its cache are those of a virtual one.
    patch.setattr(run_cases, "capture", partial(run_cases.capture, cuda=gpu))
    patch.setattr(run_cases, "hooks_of", partial(run_cases.hooks_of, cuda=gpu))
    patch.setattr(sampling_hooks, "cache_flush", lambda cuda, device: cuda.flush)

    # Blocks of the timer: their samples count, others do not.
    within(timer.Timer, "run_block", stage.block)
    # Disturbances: there are none.
    patch.setattr(timer, "read_counters", lambda: [0.0] * len(COUNTERS))
    patch.setattr(timer, "core_ghz", lambda: 0.0)
    # Targets: they may end cases of few samples, since many take long even here.
    patch.setattr(timer, "FEWEST_TO_STOP", FEW_TO_STOP)


def fake_group(new_group: Callable[..., Any], ranks: Sequence[int] | None = None, *_: Any, **__: Any) -> Any:
    return new_group(ranks, backend="fake")


def placed_on_hosts(stage: Stage, place_ranks: Callable[..., Any], config: Any, group: AgentGroup) -> Any:
    """Place ranks as on one host; of two hosts the record names both."""
    plan = place_ranks(config, group)
    [agent] = plan.agents
    hosts: dict[int, list[int]] = {}
    for rank in agent.ranks:
        hosts.setdefault(stage.plant.host_of(rank, plan.world_size), []).append(rank)
    return replace(plan, agents=[replace(agent, host=f"n{host}", ranks=ranks) for host, ranks in hosts.items()])


def start_clock(plant: Plant) -> StartClock:
    return StartClock(SHARED, 0.0) if plant.num_hosts == 1 else StartClock(ESTIMATOR, plant.uncertainty_s)
