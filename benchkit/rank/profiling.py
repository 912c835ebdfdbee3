"""Traces of a few steps of each case, by torch.profiler: one file per rank, which Perfetto opens."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from benchkit.api.case import Case
from benchkit.api.regions import marked_by
from benchkit.rank.calibration import ThrottleController

UNSEEN, WARM_UP, ACTIVE = 1, 1, 3
"""Steps before the profiler is on, steps of each case that are traced as warm-up, and steps labelled as the case's."""
STEP = "step "
"""Begins the label of a step; the case's labels follow. (analysis/commands/traces.py reads it.)"""


def trace_file(folder: Path, rank: int) -> Path:
    return folder / f"trace_rank_{rank}.json.gz"


def record_traces(
    cases: Sequence[Case], barrier: Callable[[], None], controller: ThrottleController, device: torch.device, path: Path
) -> None:
    """Runs each case WARM_UP + ACTIVE times and writes what they did; all ranks together, after measuring."""
    if not cases:
        return
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    steps = schedule(wait=UNSEEN, warmup=WARM_UP, active=(WARM_UP + ACTIVE) * len(cases))
    save = lambda profiler: profiler.export_chrome_trace(str(path))  # noqa: E731
    planned = [(cases[0], "warm-up")] * (UNSEEN + WARM_UP)
    for case in cases:
        label = STEP + " ".join(f"{name}={value}" for name, value in case.labels.items())
        planned += [(case, "warm-up")] * WARM_UP + [(case, label)] * ACTIVE
    with (
        profile(activities=activities, schedule=steps, on_trace_ready=save, record_shapes=True) as profiler,
        marked_by(record_function),
    ):
        for case, label in planned:
            controller.set_for(case.unslowed)
            case.reset()
            barrier()
            with record_function(label):
                case.step()
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
            profiler.step()
    controller.release()
