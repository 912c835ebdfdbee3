"""What a rank does around its samples: throttles, a cold cache, traces, CUDA graphs."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from benchkit.api.case import CapturableStep, Case, noop
from benchkit.api.keys import GRAPH, NSYS, RunConfig
from benchkit.api.memory import free_unused
from benchkit.api.regions import marked_by, unmarked
from benchkit.errors import Reason, oom_reason
from benchkit.measure.sampler import Hooks
from launch.slowdown.cgroup import Throttle

CLOSE_ENOUGH = 0.05
"""Error of a factor, as a share, below which a throttle stays as it is."""


@dataclass
class ThrottleController:
    """One rank's throttle, its factor, and the setting found to give it."""

    throttle: Throttle
    factor: float
    setting: float

    def apply(self) -> None:
        if self.factor > 1:
            self.throttle.apply(self.setting)

    def release(self) -> None:
        if self.factor > 1:
            self.throttle.release()

    def set_for(self, unslowed: bool) -> None:
        """Release the throttle for a case that runs at full speed, else apply it."""
        if unslowed:
            self.release()
        else:
            self.apply()

    def correct(self, measured: float) -> None:
        """Correct the setting in proportion to the error of the measured factor.

        One reading changes it by a factor of two at most, because the error may be noise.
        """
        if self.factor > 1 and miss(measured, self.factor) > CLOSE_ENOUGH:
            missing = (self.factor - 1) / (measured - 1) if measured > 1 else math.inf
            self.setting = 1 + (self.setting - 1) * min(2.0, max(0.5, missing))


def miss(measured: float, asked: float) -> float:
    return abs(measured / asked - 1)


CACHES = 2  # bytes written to flush the L2 cache, as a multiple of its size


def hooks_of(
    config: RunConfig,
    controller: ThrottleController,
    world_size: int,
    turn_to: Callable[[Case], None] = noop,
    cuda: Any = torch.cuda,
) -> Hooks:
    """Return what this rank does around samples.

    Only a single rank goes on after a lack of memory. `turn_to` is called before each series of
    samples of a case.
    """
    device = config.hardware.device
    flush = cache_flush(cuda, device) if config.measure.cold_l2 else noop

    @contextmanager
    def series(case: Case) -> Iterator[None]:
        controller.set_for(case.unslowed)
        turn_to(case)
        with named_range(label_of(case), cuda) if device == "cuda" else nullcontext():
            yield

    def measured() -> AbstractContextManager[None]:
        return captured_by_nsys(cuda) if config.profile == NSYS else nullcontext()

    return Hooks(
        series=series,
        measured=measured,
        before_sample=flush,
        spoil=spoil,
        after_oom=free_unused if world_size == 1 else None,
    )


def spoil(result: object) -> None:
    """Overwrite a tensor that a call returned, so that it cannot be returned again unseen."""
    if isinstance(result, torch.Tensor):
        with torch.inference_mode(result.is_inference()), torch.no_grad():
            result.fill_(float("nan") if result.is_floating_point() else 0)


def label_of(case: Case) -> str:
    return " ".join(f"{name}={value}" for name, value in case.labels.items())


@contextmanager
def named_range(name: str, cuda: Any) -> Iterator[None]:
    """Name what happens in this context in the traces of nsys."""
    cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        cuda.nvtx.range_pop()


@contextmanager
def captured_by_nsys(cuda: Any) -> Iterator[None]:
    """Let `nsys profile --capture-range=cudaProfilerApi` record this context."""
    cuda.synchronize()
    cuda.profiler.start()
    with flushed_profiler("cuda", cuda):
        yield


@contextmanager
def flushed_profiler(device: str, cuda: Any = torch.cuda) -> Iterator[None]:
    """Make nsys, and others that use CUPTI, write out at the end of this context what they hold.

    A rank ends by os._exit, which would discard it.
    """
    try:
        yield
    finally:
        with suppress(RuntimeError):  # after an error of the GPU, which another exception reports
            if device == "cuda":
                cuda.synchronize()
                cuda.profiler.stop()


def cache_flush(cuda: Any, device: str) -> Callable[[], object]:
    size = CACHES * cuda.get_device_properties(cuda.current_device()).L2_cache_size
    buffer = torch.empty(size, dtype=torch.int8, device=device)
    return lambda: buffer.zero_()


UNSEEN = 1  # steps before the profiler is on
WARM_UP = 1  # steps of each case that are traced as warm-up
ACTIVE = 3  # steps of each case that are labelled as the case's
STEP = "step "  # starts a step's label, before the case's (analysis/commands/profile.py)


def trace_file(folder: Path, rank: int) -> Path:
    return folder / f"trace_rank_{rank}.json.gz"


def record_traces(
    cases: Sequence[Case],
    barrier: Callable[[], None],
    controller: ThrottleController,
    device: torch.device,
    path: Path,
) -> None:
    if not cases:
        return
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    steps = plan_steps(cases)
    traced_steps = (WARM_UP + ACTIVE) * len(cases)
    with (
        profile(
            activities=activities,
            schedule=schedule(wait=UNSEEN, warmup=WARM_UP, active=traced_steps),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
            record_shapes=True,
        ) as profiler,
        marked_by(record_function),
    ):
        for case, label in steps:
            controller.set_for(case.unslowed)
            case.reset()
            barrier()
            run_step(case, label, device)
            profiler.step()
    controller.release()


def run_step(case: Case, label: str, device: torch.device) -> None:
    """Run one step under a label that lasts until the device has done the work."""
    with record_function(label):
        case.step()
        torch.get_device_module(device).synchronize()


def plan_steps(cases: Sequence[Case]) -> list[tuple[Case, str]]:
    steps = [(cases[0], "warm-up")] * (UNSEEN + WARM_UP)
    for case in cases:
        label = STEP + label_of(case)
        steps += [(case, "warm-up")] * WARM_UP + [(case, label)] * ACTIVE
    return steps


REFUSAL = f"measure.mode={GRAPH}: "  # starts the reasons


def capture(case: Case, config: RunConfig, cuda: Any = torch.cuda) -> Reason:
    """Replace the step of a case by the replay of a graph; return why that cannot be done, or "".

    All ranks call this together, after the case has run: capturing neither computes nor
    communicates, and libraries make their workspaces at a first call. Several cases may have the
    same step.
    """
    step = case.step
    if reason := config.unsuited():
        return reason
    if not isinstance(step, CapturableStep):
        return f"{REFUSAL}the suite does not offer this step for capture"
    backend = config.backend.name if step.over == "default" else step.over
    if backend not in ("", "nccl"):
        return f"{REFUSAL}a CUDA graph cannot hold what {backend} does; allowed is nccl"
    if step.refusal is None:
        step.refusal = captured(step, cuda)
    # The refusal of this rank is told again, because the others do not call a captured step again.
    return step.refusal


def captured(step: CapturableStep, cuda: Any) -> str:
    with marked_by(unmarked):  # events of regions cannot be timed within a graph
        side = ran_beside(step.call, cuda)
        try:
            step.call = replay_of(step.call, side, cuda)
        except RuntimeError as error:
            cause = error.__context__ or error  # what failed within the capture, not its end
            if isinstance(cause, Exception) and oom_reason(cause):
                raise cause from None
            why = str(cause).strip().split("\n")[0] or type(cause).__name__
            return f"{REFUSAL}the step cannot be captured ({why})"
    return ""


def ran_beside(call: Callable[[], object], cuda: Any) -> Any:
    """Make a call on another stream than the current one; return that stream."""
    here, side = cuda.current_stream(), cuda.Stream()
    side.wait_stream(here)
    with cuda.stream(side):
        call()
    here.wait_stream(side)
    return side


def replay_of(call: Callable[[], object], stream: Any, cuda: Any) -> Callable[[], object]:
    """Capture a call on a stream on which it has run before; return the replay of its graph.

    Raises RuntimeError for what a graph cannot hold, such as waiting for the device.
    """
    graph = cuda.CUDAGraph()
    # Other threads, such as NCCL's watchdog, may ask for events meanwhile. The outer context
    # restores the current stream, because a capture that fails leaves its own in place.
    here = cuda.stream(cuda.current_stream())
    with here, cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        call()
    replay: Callable[[], object] = graph.replay
    return replay


def as_timed(cases: Sequence[Case], config: RunConfig) -> Sequence[Case]:
    if config.measure.mode != GRAPH:
        return cases
    return [replace(case, regions=(), observe=noop) for case in cases]
