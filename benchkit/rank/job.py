"""The cases of a job: what the suite may know of the rank, and what it may return."""

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from benchkit.api.case import Case, Components, Rank
from benchkit.api.keys import RunConfig
from benchkit.api.memory import PeakMemory, available_bytes, host_available_bytes
from benchkit.api.registry import load_suites
from benchkit.measure.timer import all_gather_named
from benchkit.rank.assignment import Assignment
from benchkit.rank.backends import ControlGroup
from benchkit.rank.prober import Prober
from benchkit.rank.session import RankSession
from benchkit.record.record import Labels


def build_cases(assignment: Assignment, session: RankSession, prober: Prober) -> list[Case]:
    """Return the cases of the suite, or the only one asked for; all ranks call this together.

    Raises ValueError for cases that a suite may not return, or that differ between ranks.
    """
    config = assignment.config
    rank = describe_rank(assignment, session, prober)
    cases = load_suites()[config.suite].build(config, rank)
    require_valid_cases(cases, config)
    if assignment.only is not None:
        cases = [select_isolated(cases, assignment.only)]
    require_alike(cases, session.group)
    return cases


def describe_rank(assignment: Assignment, session: RankSession, prober: Prober) -> Rank:
    """Return what the suite may know of this rank; all ranks call this together."""
    config = assignment.config
    place = assignment.place
    device = session.device
    on_cpu = device.type == "cpu"
    sharers = place.local_world_size if on_cpu else config.hardware.ranks_per_device
    # All ranks exchange their values so that they decide alike.
    memory = all_gather_named(
        session.group.all_gather,
        free=[available_bytes(device)],
        free_on_host=[host_available_bytes()],
        sharers=[sharers],
        host_sharers=[place.local_world_size],
    )
    return Rank(
        index=place.rank,
        world_size=assignment.world_size,
        sharers=int(max(memory["sharers"])[0]),
        device=device,
        seed=config.seed,
        available_bytes=min(memory["free"])[0],
        memory=PeakMemory(device),
        shares=tuple(map(config.hardware.share, assignment.slowdown)),
        seconds_of=prober.seconds_of,
        group=session.side_group,
        subgroup=session.subgroup,
        by_mps=assignment.uses_mps,
        host_sharers=int(max(memory["host_sharers"])[0]),
        host_available_bytes=min(memory["free_on_host"])[0],
        hosts=assignment.hosts,
        folder=assignment.folder,
    )


def select_isolated(cases: list[Case], labels: Labels) -> Case:
    """Return the case with these labels, without references to the others, which are freed."""
    found = next((case for case in cases if dict(case.labels) == labels), None)
    if found is None:
        raise ValueError(f"fresh ranks built no case {labels}")
    return replace(found, baseline=None, components=Components())


def require_valid_cases(cases: list[Case], config: RunConfig) -> None:
    """Raise ValueError for cases that a suite may not return.

    There must be a case. A label may not have the name of a column that every suite has; the column
    of `ranks` has another name, because suites have labels of that name. A label with the name of
    one of the suite's own keys says what this case has in place of it. References must lead to
    cases of the list.
    """
    if not cases:
        raise ValueError(f"suite {config.suite} returned no case")
    keys = {
        item.name
        for item in fields(RunConfig)
        if not isinstance(getattr(config, item.name), list | dict)
    }
    taken = (keys | {"status", "device"}) - {"ranks"}
    for case in cases:
        if clash := taken & set(case.labels):
            raise ValueError(
                f"suite {config.suite}: a label cannot be named {min(clash)}, "
                "which is a key or a column of every suite"
            )
        if odd := [*not_finite(dict(case.labels)), *not_finite(vars(case.work))]:
            raise ValueError(f"suite {config.suite}: {odd[0]}; allowed are finite numbers")
    try:
        require_references(cases)
    except ValueError as error:
        raise ValueError(f"suite {config.suite}: {error}") from None


ALIKE = (
    "labels",
    "ranks",
    "calls",
    "estimator",
    "regions",
    "includes_launches",
    "on_host",
    "unslowed",
)
"""What says how a case is timed, which ranks do together."""


def require_alike(cases: Sequence[Case], group: ControlGroup) -> None:
    """Raise ValueError where ranks would time a case in different ways; all call this together.

    A rank that cannot run a case need not describe it.
    """
    rows = group.all_gather([digest_of(case) for case in cases])
    for number, (case, values) in enumerate(zip(cases, zip(*rows, strict=True), strict=True)):
        if len(set(values) - {UNABLE}) > 1:
            raise ValueError(
                f"case {number} {dict(case.labels)}: ranks differ in one of {', '.join(ALIKE)}; "
                "allowed are the same of all ranks, also of those that take no part"
            )


UNABLE = -1.0


def digest_of(case: Case) -> float:
    if case.skip or case.unavailable:
        return UNABLE
    return float(zlib.crc32(repr([getattr(case, name) for name in ALIKE]).encode()))


def require_references(cases: list[Case]) -> None:
    """Raise ValueError for a case that is listed twice, or refers to one outside the list."""
    for case in cases:
        if cases.count(case) > 1:
            raise ValueError(f"case {dict(case.labels)} is returned twice; allowed is once")
        references: dict[str, Case | None] = {"baseline": case.baseline, **vars(case.components)}
        for role, other in references.items():
            if other is not None and other not in cases:
                raise ValueError(
                    f"case {dict(case.labels)}: its {role} {dict(other.labels)} is not returned; "
                    "allowed are returned cases"
                )


def not_finite(values: Mapping[str, object]) -> Iterator[str]:
    """Yield what JSON has no number for, such as "loss=nan", of a mapping and those inside it."""
    for name, value in values.items():
        if isinstance(value, list | tuple):
            value = {str(index): each for index, each in enumerate(value)}
        if isinstance(value, Mapping):
            yield from (f"{name}.{each}" for each in not_finite(value))
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"{name}={value}"
