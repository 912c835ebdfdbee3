"""Which case of a job another is compared with: one on its own backend, as far as there is one. Knows no torch."""

from collections.abc import Mapping, Sequence

Options = Mapping[str, str | int]
"""An implementation with its options; `backend` is one of them where it communicates."""
DEFAULT = "default"


def over(options: Options, job_backend: str) -> Options:
    """The options with the backend's name instead of `default`, which stands for the job's."""
    return {**options, "backend": job_backend} if options.get("backend") == DEFAULT else options


def counterpart(wanted: Options, there: Sequence[Options], job_backend: str) -> Options | None:
    """Of the cases there the one wanted, or the same one over the same backend by its other name; None without."""
    same = [each for each in there if over(each, job_backend) == over(wanted, job_backend)]
    return wanted if wanted in same else next(iter(same), None)


def baseline_of(options: Options, baseline: Options, there: Sequence[Options], job_backend: str) -> Options | None:
    """The baseline of an implementation on its own backend, else on the first there; None for a baseline itself.

    baseline: its options, less the backend.
    """
    on_backends = [each for each in there if is_on_a_backend(each, baseline)]
    if is_on_a_backend(options, baseline):
        return None
    wanted = {**baseline, "backend": options.get("backend", DEFAULT)}
    return counterpart(wanted, on_backends, job_backend) or next(iter(on_backends), None)


def is_on_a_backend(options: Options, baseline: Options) -> bool:
    """Whether options are those of the baseline, whatever its backend."""
    return {name: value for name, value in options.items() if name != "backend"} == baseline


def labels_of(options: Options) -> Options:
    """The options as columns: `backend` is the job's."""
    return {("comm_backend" if name == "backend" else name): value for name, value in options.items()}


def name_of(options: Options | None) -> str:
    """ "pipeline AG_before p2p default": what other cases refer to it by; "" for none."""
    return " ".join(str(value) for value in (options or {}).values())
