"""Captures what a step queues on a GPU in a CUDA graph, whose replay takes the step's place."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from benchkit.api.capture import CapturableStep
from benchkit.api.case import Case, noop
from benchkit.api.groups import GRAPH
from benchkit.api.regions import marked_by, unmarked
from benchkit.api.schema import RunConfig
from benchkit.errors import oom_reason

REFUSAL = f"measure.mode={GRAPH}: "
"""Start of the reasons."""


def capture(case: Case, config: RunConfig, cuda: Any = torch.cuda) -> str:
    """Replaces the step of a case by the replay of a graph that holds its work on the GPU.

    All ranks call this together, after the case has run: capturing neither computes nor
    communicates, and libraries make their workspaces at a first call.

    Args:
        case: of the job; several cases may have the same step.
        config: of the point.
        cuda: torch.cuda, or what replaces it in a test.

    Returns:
        Why that cannot be done; "" where it was done.
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
    """Replaces what a step does by the replay of its graph; returns why that cannot be done."""
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
    """Makes a call on another stream than the current one; returns that stream."""
    here, side = cuda.current_stream(), cuda.Stream()
    side.wait_stream(here)
    with cuda.stream(side):
        call()
    here.wait_stream(side)
    return side


def replay_of(call: Callable[[], object], stream: Any, cuda: Any) -> Callable[[], object]:
    """Captures a call on a stream on which it has run before; returns the replay of its graph.

    Raises:
        RuntimeError: the call does what a graph cannot hold, such as waiting for the device.
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
    """Returns cases as they are timed: replays mark no regions."""
    if config.measure.mode != GRAPH:
        return cases
    return [replace(case, regions=(), observe=noop) for case in cases]
