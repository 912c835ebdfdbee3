"""Finds the case that another is compared with, on the same backend if possible; without torch."""

from collections.abc import Mapping, Sequence

from benchkit.api.case import Case
from benchkit.suites.tensor_parallel.names import COMM_BACKEND, DEFAULT

Options = Mapping[str, str | int]
"""An implementation with its options, among them `backend` if it communicates."""
Labels = Mapping[str, str | int | float]
"""Labels of a case: its options, with `comm_backend` in place of `backend`."""


def over(labels: Labels, job_backend: str) -> Labels:
    """Returns the labels with the job's backend instead of `default`."""
    return {**labels, COMM_BACKEND: job_backend} if labels.get(COMM_BACKEND) == DEFAULT else labels


def counterpart(wanted: Labels, there: Sequence[Case], job_backend: str) -> Case | None:
    """Returns the case with the wanted labels of those there, or None.

    `default` and the name of the job's backend are the same backend; an exact match comes first.
    """
    resolved = over(wanted, job_backend)
    same = [case for case in there if over(case.labels, job_backend) == resolved]
    return min(same, key=lambda case: case.labels != wanted, default=None)


def baseline_of(
    labels: Labels, baseline: Options, there: Sequence[Case], job_backend: str
) -> Case | None:
    """Returns the baseline of an implementation on its own backend, else the first baseline there.

    Args:
        labels: of the implementation; a baseline itself has None.
        baseline: options of the baseline, without the backend.
        there: all baselines that can run, among other cases.
        job_backend: what `default` stands for.
    """
    if is_on_a_backend(labels, baseline):
        return None
    on_backends = [case for case in there if is_on_a_backend(case.labels, baseline)]
    wanted = {**baseline, COMM_BACKEND: labels.get(COMM_BACKEND, DEFAULT)}
    return counterpart(wanted, on_backends, job_backend) or next(iter(on_backends), None)


def is_on_a_backend(labels: Labels, baseline: Options) -> bool:
    """Whether labels are those of the baseline on any backend."""
    return {name: value for name, value in labels.items() if name != COMM_BACKEND} == baseline


def labels_of(options: Options) -> Options:
    """Returns the options as columns, where the name `backend` belongs to the job."""
    return {COMM_BACKEND if name == "backend" else name: value for name, value in options.items()}
