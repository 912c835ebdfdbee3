"""Checks the cases that a suite returned."""

from dataclasses import fields

from benchkit.api.case import Case
from benchkit.api.schema import RunConfig


def require_sound(cases: list[Case], config: RunConfig) -> None:
    """Checks the cases that a suite returned.

    Raises:
        ValueError: there is no case, a label has the name of a column or of a key that is one, or
            a reference between cases leads nowhere. A key that holds a list is no column, and the
            column of `ranks` has another name, because suites have labels of that name.
    """
    if not cases:
        raise ValueError(f"suite {config.suite} returned no case")
    keys = {
        item.name
        for item in fields(config)
        if not isinstance(getattr(config, item.name), list | dict)
    }
    taken = (keys | {"status", "device"}) - {"ranks"}
    for case in cases:
        if clash := taken & set(case.labels):
            raise ValueError(
                f"suite {config.suite}: a label cannot be named {min(clash)}, "
                "which is a key or a column"
            )
    try:
        require_references(cases)
    except ValueError as error:
        raise ValueError(f"suite {config.suite}: {error}") from None


def require_references(cases: list[Case]) -> None:
    """Checks that each case is in the list once and refers only to cases of the list.

    Raises:
        ValueError: a case is in the list twice, or refers to a case that is not in the list.
    """
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
