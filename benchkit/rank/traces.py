"""Traces of torch's profiler: a few steps of each case, after the measurement."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from benchkit.api.case import Case
from benchkit.api.regions import use_marker
from benchkit.rank.assignment import Assignment
from benchkit.rank.sampling_hooks import label_of
from benchkit.rank.session import RankSession

UNSEEN = 1  # steps before the profiler is on
WARM_UP = 1  # steps of each case that are traced as warm-up
ACTIVE = 3  # steps of each case that are labelled as the case's
STEP = "step "  # starts a step's label, before the case's (analysis/commands/profile.py)


def trace_file(folder: Path, rank: int) -> Path:
    return folder / f"trace_rank_{rank}.json.gz"


def record_traces(cases: Sequence[Case], session: RankSession, assignment: Assignment) -> None:
    """Trace a few steps of each case on each rank; all ranks call this together."""
    if not cases:
        return
    activities = [ProfilerActivity.CPU]
    if session.device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    steps = labelled_steps(cases)
    path = trace_file(assignment.folder, assignment.place.rank)
    traced_steps = (WARM_UP + ACTIVE) * len(cases)
    with (
        profile(
            activities=activities,
            schedule=schedule(wait=UNSEEN, warmup=WARM_UP, active=traced_steps),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
            record_shapes=True,
        ) as profiler,
        use_marker(record_function),
    ):
        for case, label in steps:
            session.controller.set_for(case.unslowed)
            case.reset()
            session.group.barrier()
            run_step(case, label, session.device)
            profiler.step()
    session.controller.release()


def run_step(case: Case, label: str, device: torch.device) -> None:
    """Run one step under a label that lasts until the device is done."""
    with record_function(label):
        case.step()
        torch.get_device_module(device).synchronize()


def labelled_steps(cases: Sequence[Case]) -> list[tuple[Case, str]]:
    steps = [(cases[0], "warm-up")] * (UNSEEN + WARM_UP)
    for case in cases:
        label = STEP + label_of(case)
        steps += [(case, "warm-up")] * WARM_UP + [(case, label)] * ACTIVE
    return steps
