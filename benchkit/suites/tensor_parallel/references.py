"""Finds the case that another is compared with, on the same backend if possible; without torch."""

from collections.abc import Mapping, Sequence

Options = Mapping[str, str | int]
"""An implementation with its options, among them `backend` if it communicates."""
DEFAULT = "default"


def over(options: Options, job_backend: str) -> Options:
    """Returns the options with the job's backend instead of `default`."""
    return {**options, "backend": job_backend} if options.get("backend") == DEFAULT else options


def counterpart(wanted: Options, there: Sequence[Options], job_backend: str) -> Options | None:
    """Returns the wanted case of those there, or None.

    `default` and the name of the job's backend are the same backend; an exact match comes first.
    """
    resolved = over(wanted, job_backend)
    same = [options for options in there if over(options, job_backend) == resolved]
    return wanted if wanted in same else next(iter(same), None)


def baseline_of(
    options: Options, baseline: Options, there: Sequence[Options], job_backend: str
) -> Options | None:
    """Returns the baseline of an implementation on its own backend, else the first baseline there.

    Args:
        options: the implementation; a baseline itself has None.
        baseline: options of the baseline, without the backend.
        there: options of all cases that can run.
        job_backend: what `default` stands for.
    """
    on_backends = [other for other in there if is_on_a_backend(other, baseline)]
    if is_on_a_backend(options, baseline):
        return None
    wanted = {**baseline, "backend": options.get("backend", DEFAULT)}
    return counterpart(wanted, on_backends, job_backend) or next(iter(on_backends), None)


def is_on_a_backend(options: Options, baseline: Options) -> bool:
    """Whether options are those of the baseline on any backend."""
    return {name: value for name, value in options.items() if name != "backend"} == baseline


def labels_of(options: Options) -> Options:
    """Returns the options as columns, where the name `backend` belongs to the job."""
    columns = {"backend": "comm_backend"}
    return {columns.get(name, name): value for name, value in options.items()}


def name_of(options: Options | None) -> str:
    """Returns the name by which other cases refer to this one; "" for None.

    For example "pipeline AG_before 4 default".
    """
    return " ".join(str(value) for value in (options or {}).values())
