"""Check what benchkit shows of planted points, in every pair or triple of settings: docs/results/planted.md.

    python -m perf.planted [--strength 3]

Every call takes what was planted, in virtual time. Print a table of the axes, a table of how many metrics were
compared with the truth, and each metric that differs.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchkit.errors import ConfigError
from hydra.errors import HydraException
from tests.support.planted import combinations
from tests.support.planted.axes import AXES, Combination, covering
from tests.support.planted.runs import Failed
from tests.support.planted.world import planted_world

MOST_OF_ONE = 3
"""Differences of one combination that are printed; of the others there is the number."""
ENDS = ("agreed", "differed", "refused", "failed")


def measure_combination(chosen: Combination, counts: Counter[str]) -> list[str]:
    """Measure a combination and count its outcome; return lines of what is wrong."""
    with tempfile.TemporaryDirectory() as folder, planted_world() as stage:
        try:
            found = combinations.measure(stage, chosen, Path(folder) / "sweep")
        except (ConfigError, HydraException) as refusal:
            counts["refused"] += 1
            return [f"refused: {refusal}"]
        except Failed as failure:
            counts["failed"] += 1
            return [f"failed: {failure}"]
    counts["figures"] += found.num_figures
    counts["differing figures"] += len(found.differences)
    counts["differed" if found.differences else "agreed"] += 1
    lines = [*map(str, found.differences[:MOST_OF_ONE])]
    more = len(found.differences) - len(lines)
    return [*lines, f"and {more} more"] if more else lines


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strength", type=int, default=2, choices=(1, 2, 3))
    given = parser.parse_args()
    array = covering(given.strength)
    print(row("axis", "values"), row("---", "---"), sep="\n")
    for axis, values in AXES.items():
        print(row(axis, ", ".join(map(str, values))))
    counts: Counter[str] = Counter()
    problems: list[tuple[Combination, list[str]]] = []
    began = time.perf_counter()
    for chosen in array:
        if lines := measure_combination(chosen, counts):
            problems.append((chosen, lines))
    seconds = time.perf_counter() - began
    names = (*ENDS, "figures", "differing figures")
    print("", row("strength", "combinations", *names, "seconds"), row(*["---:"] * (len(names) + 3)), sep="\n")
    print(row(given.strength, len(array), *(f"{counts[name]:,}" for name in names), f"{seconds:.0f}"))
    for chosen, lines in problems:
        print("", " ".join(map(str, chosen.values())), *(f"- {line}" for line in lines), sep="\n")


if __name__ == "__main__":
    main()
