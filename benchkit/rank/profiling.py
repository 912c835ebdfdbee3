"""Traces of a few steps of each case by torch.profiler: one file per rank, which Perfetto opens."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from benchkit.api.case import Case
from benchkit.api.regions import marked_by
from benchkit.rank.around_samples import label_of
from benchkit.rank.throttle_controller import ThrottleController

UNSEEN = 1
"""Steps before the profiler is on."""
WARM_UP = 1
"""Steps of each case that are traced as warm-up."""
ACTIVE = 3
"""Steps of each case that are labelled as the case's."""
STEP = "step "
"""Start of a step's label; the case's labels follow. (analysis/commands/traces.py reads it.)"""


def trace_file(folder: Path, rank: int) -> Path:
    return folder / f"trace_rank_{rank}.json.gz"


def record_traces(
    cases: Sequence[Case],
    barrier: Callable[[], None],
    controller: ThrottleController,
    device: torch.device,
    path: Path,
) -> None:
    """Traces WARM_UP + ACTIVE steps of each case, after measuring, on all ranks together.

    Args:
        cases: what to run; without cases no trace is written.
        barrier: waits for all ranks, before each step.
        controller: this rank's throttle, applied for the cases that are slowed down.
        device: the device whose work is traced beside that of the CPU.
        path: the file to write.
    """
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
    """Runs one step under a label that lasts until the device has done the work."""
    with record_function(label):
        case.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def plan_steps(cases: Sequence[Case]) -> list[tuple[Case, str]]:
    """Returns the steps of all cases in order, each with the label of its trace."""
    steps = [(cases[0], "warm-up")] * (UNSEEN + WARM_UP)
    for case in cases:
        label = STEP + label_of(case)
        steps += [(case, "warm-up")] * WARM_UP + [(case, label)] * ACTIVE
    return steps
