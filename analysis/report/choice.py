"""Which figures of a report are drawn: as many as a person looks at, unless all are asked for."""

from collections.abc import Mapping
from typing import TypeVar

MOST_FIGURES = 12
ALL = "all"
Figure = TypeVar("Figure")


def chosen(
    figures: Mapping[str, Mapping[str, Figure]], most: int | None
) -> dict[str, dict[str, Figure]]:
    """Choose figures in turn: the first of each module, then the second of each, and so on.

    Args:
        figures: by module and name.
        most: how many; None for all.
    """
    places = [
        (place, module, name) for module, own in figures.items() for place, name in enumerate(own)
    ]
    kept = {each[1:] for each in sorted(places, key=lambda each: each[0])[:most]}
    return {
        module: {name: figure for name, figure in own.items() if (module, name) in kept}
        for module, own in figures.items()
    }


def left_out(count: int, most: int | None) -> str:
    """Say how many of the figures are not drawn, and how to get them; "" where all are."""
    if most is None or count <= most:
        return ""
    return (
        f"{most} of {count} figures are drawn, the first of each suite; --figures {ALL} draws all"
    )
