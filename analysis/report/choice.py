"""Which figures of a report are drawn: as many as a person looks at, unless all are asked for."""

from collections.abc import Mapping
from typing import TypeVar

MOST_FIGURES = 8
ALL = "all"
Figure = TypeVar("Figure")


def choose_figures(
    figures: Mapping[str, Mapping[str, Figure]], most: int | None
) -> tuple[dict[str, dict[str, Figure]], str]:
    """Choose figures in turn: the first of each module, then the second of each, and so on.

    Args:
        figures: by module and name.
        most: how many, but at least one of each module; None for all.

    Returns:
        They, and what to say of those left out; "" where none is.
    """
    places = [
        (place, module, name) for module, own in figures.items() for place, name in enumerate(own)
    ]
    if most is not None:
        most = max(most, sum(place == 0 for place, _, _ in places))
    kept = {each[1:] for each in sorted(places, key=lambda each: each[0])[:most]}
    found = {
        module: {name: figure for name, figure in own.items() if (module, name) in kept}
        for module, own in figures.items()
    }
    count = f"{len(kept)} of {len(places)} figures are drawn, the first of each suite"
    return found, f"{count}; --figures {ALL} draws all" if len(kept) < len(places) else ""
