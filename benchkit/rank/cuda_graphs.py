"""CUDA graphs: replace a step by the replay of its capture."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from benchkit.api.case import CapturableStep, Case, noop
from benchkit.api.keys import GRAPH, RunConfig
from benchkit.api.regions import mark_nothing, use_marker
from benchkit.errors import Reason, oom_reason

REFUSAL = f"measure.mode={GRAPH}: "  # starts the reasons


def capture(case: Case, config: RunConfig, cuda: Any = torch.cuda) -> Reason:
    """Replace the step of a case by the replay of its graph; return why that fails, or "".

    All ranks call this together, after the case has run once: a capture neither computes nor
    communicates, and libraries allocate workspaces at a first call. Several cases may share a step.
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
        step.refusal = capture_step(step, cuda)
    # A refusal is final: the other ranks do not call a captured step again.
    return step.refusal


def capture_step(step: CapturableStep, cuda: Any) -> Reason:
    """Replace the call of a step by the replay of its graph; return the reason of a failure."""
    with use_marker(mark_nothing):  # events of regions cannot be timed within a graph
        stream = run_on_side_stream(step.call, cuda)
        try:
            step.call = capture_replay(step.call, stream, cuda)
        except RuntimeError as error:
            cause = error.__context__ or error  # the error within the capture, not at its end
            if isinstance(cause, Exception) and oom_reason(cause):
                raise cause from None
            why = str(cause).strip().split("\n")[0] or type(cause).__name__
            return f"{REFUSAL}the step cannot be captured ({why})"
    return ""


def run_on_side_stream(call: Callable[[], object], cuda: Any) -> Any:
    """Make a call on another stream than the current one; return that stream."""
    current, side = cuda.current_stream(), cuda.Stream()
    side.wait_stream(current)
    with cuda.stream(side):
        call()
    current.wait_stream(side)
    return side


def capture_replay(call: Callable[[], object], stream: Any, cuda: Any) -> Callable[[], object]:
    """Capture a call on a stream on which it has run before; return the replay of its graph.

    Raises RuntimeError for operations that a graph cannot hold, such as waiting for the device.
    """
    graph = cuda.CUDAGraph()
    # Other threads, such as NCCL's watchdog, may query events meanwhile. The outer context
    # restores the current stream, because a failed capture leaves its own in place.
    restored = cuda.stream(cuda.current_stream())
    with restored, cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        call()
    replay: Callable[[], object] = graph.replay
    return replay


def remove_regions(case: Case) -> Case:
    """Return a case without its regions, whose events a graph cannot hold."""
    return replace(case, regions=(), observe=noop)
