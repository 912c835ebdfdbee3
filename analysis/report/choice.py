"""Choose the figures that a report draws: as many as a person looks at, or all."""

from collections.abc import Mapping
from typing import TypeVar

MOST_FIGURES = 8
ALL = "all"
Figure = TypeVar("Figure")


def choose_figures(
    figures: Mapping[str, Mapping[str, Figure]], most: int | None
) -> tuple[dict[str, dict[str, Figure]], str]:
    """Choose figures round-robin: the first of each module, then the second of each, and so on.

    Args:
        figures: by module and name.
        most: their number, at least one per module; None for all.

    Returns:
        The chosen figures, and a note on the others; "" without others.
    """
    places = [
        (place, module, name)
        for module, of_module in figures.items()
        for place, name in enumerate(of_module)
    ]
    if most is not None:
        most = max(most, sum(place == 0 for place, _, _ in places))
    kept = {entry[1:] for entry in sorted(places, key=lambda entry: entry[0])[:most]}
    chosen = {
        module: {name: figure for name, figure in of_module.items() if (module, name) in kept}
        for module, of_module in figures.items()
    }
    count = f"{len(kept)} of {len(places)} figures are drawn, the first of each suite"
    return chosen, f"{count}; --figures {ALL} draws all" if len(kept) < len(places) else ""
