"""Measure the rate of true conclusions of benchkit on problems with planted truth: docs/results/conclusions.md.

    python -m perf.conclusions [--replicates 400] [--seed 0]

Print Markdown tables. Each cell is a layout, a kind of noise, a factor, and numbers of rounds and runs, and has so
many problems. A claim on one run is compared with what was planted in that run, one over several runs with the
long-run value. A cell with too many false claims is counted again, with other and more problems.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, product
from pathlib import Path

from tests.support.planted.claims import KINDS, MOST_FALSE, TIED, Tally, tally_of
from tests.support.planted.conclusions import (
    FACTORS,
    LAYOUTS,
    NOISES,
    ROUNDS_TAKEN,
    RUNS_TAKEN,
    Cell,
    plant,
    records_of,
    tabulate,
)
from tests.support.planted.outputs import disagreements

SOME_ROUNDS = (1, 12)
"""Rounds of several runs, where they only determine a run's median."""
APART_ROUNDS = (1, 50)
AGAIN = 4
"""Factor of the number of problems in a cell that is counted again."""
SURE = 3.0
"""Standard errors by which a share must exceed its limit."""
MOST_EXAMPLES = 5
FIVE = "5 %"
TARGETS = {1.3: 10, 2.0: 6}
"""By factor: least number of rounds to name the faster of two variants nearly always, with noise of 5 %."""
POWER = 0.9
READ = ((1, 1), (3, 1), (6, 1), (12, 1), (50, 1), (3, 6), (3, 8))
"""Rounds and runs of the tables with outputs to read."""

Tallies = Mapping[Cell, Tally]


def all_cells() -> Iterator[Cell]:
    for name, noise, factor in product(LAYOUTS, NOISES, FACTORS):
        single = ROUNDS_TAKEN if LAYOUTS[name].is_interleaved else APART_ROUNDS
        sizes = [(rounds, 1) for rounds in single] + [*product(SOME_ROUNDS, RUNS_TAKEN[1:])]
        for rounds, runs in sizes:
            yield Cell(name, noise, factor, rounds, runs)


def is_short(cell: Cell) -> bool:
    if cell.factor == 1:
        return (cell.rounds, cell.runs) in READ
    return cell.layout == "two" and cell.runs == 1 and cell.factor in (1.1, 1.3, 2.0) and cell.rounds in (6, 10, 20)


def pooled(tallies: Tallies, holds: Callable[[Cell], bool]) -> Tally:
    found = Tally()
    for cell, tally in tallies.items():
        if holds(cell):
            found.add(tally)
    return found


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def share(value: float) -> str:
    return f"{100 * value:.1f}"


def kinds_of_runs() -> dict[str, Callable[[Cell], bool]]:
    return {"one run": lambda cell: cell.runs == 1, "several runs": lambda cell: cell.runs > 1}


def false_claims(tallies: Tallies) -> str:
    """Return, per layout and kind of claim, the share of false claims at the worst factor, and in the worst cell."""
    rows = []
    for layout, (runs, is_of) in product(LAYOUTS, kinds_of_runs().items()):
        own = {cell: tally for cell, tally in tallies.items() if cell.layout == layout and is_of(cell)}
        judged = {cell: tally for cell, tally in own.items() if tally.claimed.total()}
        cells: list[str] = []
        for kind in KINDS:
            by_factor = [pooled(judged, lambda cell, at=factor: cell.factor == at) for factor in FACTORS]
            worst = max((tally.share_false(kind) for tally in judged.values()), default=0.0)
            claimed = sum(tally.claimed[kind] for tally in by_factor)
            most = max(tally.share_false(kind) for tally in by_factor)
            cells.append(f"{share(most)} ({share(worst)})" if claimed else "–")
        rows.append([f"{layout}, {runs}", f"{pooled(judged, lambda cell: True).problems:,}", *cells])
    return table(["layout", "problems", *KINDS], rows)


def number_of_claims(tallies: Tallies) -> str:
    rows = []
    for layout in LAYOUTS:
        tally = pooled(tallies, lambda cell, at=layout: cell.layout == at)
        cells = [f"{tally.claimed[kind]:,} / {tally.false[kind]:,}" for kind in KINDS]
        rows.append([layout, f"{tally.problems:,}", *cells])
    return table(["layout", "problems", *KINDS], rows)


def by_noise(tallies: Tallies) -> str:
    rows = []
    for noise in NOISES:
        of_noise = [
            pooled(tallies, lambda cell, at=(noise, layout): (cell.noise, cell.layout) == at and cell.factor == 1)
            for layout in LAYOUTS
        ]
        worst = [max(tally.share_false(kind) for kind in KINDS) for tally in of_noise]
        rows.append([noise, *map(share, worst)])
    return table(["noise", *LAYOUTS], rows)


def power_of(tallies: Tallies, layout: str, noise: str) -> str:
    """Return how often the faster of two is named, and how often equal ones are called tied."""
    sizes = sorted({(cell.runs, cell.rounds) for cell in tallies if cell.layout == layout})
    is_shown = {(1, rounds) for rounds in ROUNDS_TAKEN if LAYOUTS[layout].is_interleaved} | {(6, 12), (8, 12)}
    sizes = [size for size in sizes if size in is_shown]
    rows = []
    for factor in FACTORS:
        found = [tallies[Cell(layout, noise, factor, rounds, runs)] for runs, rounds in sizes]
        ties = [tally.claimed[TIED] / tally.problems for tally in found]
        right = ties if factor == 1 else [tally.power for tally in found]
        rows.append([f"{factor:g} x" + " (tied)" * (factor == 1), *map(share, right)])
    heads = [f"{runs} runs" if runs > 1 else f"{rounds} round{'s' * (rounds > 1)}" for runs, rounds in sizes]
    return table(["truth", *heads], rows)


def power_by_noise(tallies: Tallies) -> str:
    rows = []
    for noise in NOISES:
        cells = []
        for factor, rounds in product((1.1, 1.3, 2.0), (6, 10, 20)):
            cells.append(share(tallies[Cell("two", noise, factor, rounds)].power))
        rows.append([noise, *cells])
    return table(
        ["noise", *(f"{factor:g} x, {rounds}" for factor, rounds in product((1.1, 1.3, 2.0), (6, 10, 20)))], rows
    )


def counted_again(tallies: Tallies, seed: int) -> Iterator[list[object]]:
    """Yield each cell with too many false claims, and its result on more problems."""
    for cell, tally in tallies.items():
        kinds = [kind for kind in KINDS if tally.excess(kind) > SURE]
        if kinds:
            more = tally_of(plant(cell, AGAIN * tally.problems, seed + 1))
            for kind in kinds:
                word = "misses" if more.excess(kind) > SURE else "holds"
                yield [cell, kind, share(tally.share_false(kind)), share(more.share_false(kind)), word]


def weak(tallies: Tallies) -> Iterator[list[object]]:
    for factor, fewest in TARGETS.items():
        for rounds in ROUNDS_TAKEN:
            power = tallies[Cell("two", FIVE, factor, rounds)].power
            if rounds >= fewest and power < POWER:
                yield [Cell("two", FIVE, factor, rounds), share(power)]


def read_outputs(seed: int) -> None:
    """Read the outputs of some tables of few problems, and print where they differ from speedups.csv."""
    counts: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    factors, sizes = cycle(FACTORS), cycle((2, 4, 1, 5, 12))
    for layout, noise, (rounds, runs) in product(LAYOUTS, NOISES, READ):
        cell, problems = Cell(layout, noise, next(factors), rounds, runs), next(sizes)
        made = tabulate(records_of(plant(cell, max(problems, len(LAYOUTS[layout].hosts)), seed)))
        with tempfile.TemporaryDirectory() as folder:
            found = disagreements(made, Path(folder))
        counts["tables"] += 1
        counts["tables that disagree"] += bool(found)
        for line in found:
            output = line.partition(":")[0].partition(",")[0]
            counts[output] += 1
            examples.setdefault(output, []).append(f"{cell}, {problems} problems: {line}")
    print("\nOutputs that say otherwise than speedups.csv\n")
    print(table(["what", "number"], [*counts.items()]))
    for lines in examples.values():
        print("", *(f"- {line}" for line in lines[:MOST_EXAMPLES]), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=400, help="problems per cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--short", action="store_true", help="equal variants, and the power of two: minutes, not hours")
    given = parser.parse_args()
    began = time.process_time()
    if given.short:
        tallies = {cell: tally_of(plant(cell, given.replicates, given.seed)) for cell in all_cells() if is_short(cell)}
        print(f"{len(tallies)} cells of {given.replicates} problems, seed {given.seed}\n\n{by_noise(tallies)}")
        print(f"\n{power_by_noise(tallies)}\n\n{time.process_time() - began:.0f} s of CPU")
        return
    tallies = {cell: tally_of(plant(cell, given.replicates, given.seed)) for cell in all_cells()}
    problems = sum(tally.problems for tally in tallies.values())
    print(f"{len(tallies):,} cells of {given.replicates} problems, {problems:,} in all, seed {given.seed}")
    limit = f"at most {100 * MOST_FALSE:g} %"
    print(f"\nProblems with a false claim, %, {limit}: at the worst factor (in the worst cell)\n")
    print(false_claims(tallies))
    print("\nProblems with a claim / with a false one\n")
    print(number_of_claims(tallies))
    print(f"\nEqual variants: problems with a false claim of any kind, %, {limit}\n")
    print(by_noise(tallies))
    for layout in ("two", "apart"):
        print(f"\nThe faster of two is named, %: {layout}, noise of {FIVE}\n")
        print(power_of(tallies, layout, FIVE))
    print("\nThe faster of two is named, %, by noise, factor and rounds of one run\n")
    print(power_by_noise(tallies))
    print(f"\nCells with more than {limit.removeprefix('at most ')} + {SURE:g} standard errors, counted again\n")
    print(table(["cell", "claim", "first, %", "again, %", "target"], [*counted_again(tallies, given.seed)]))
    print(f"\nCells in which the faster of two is named in less than {100 * POWER:g} %, where it should be\n")
    print(table(["cell", "named, %"], [*weak(tallies)]))
    read_outputs(given.seed)
    print(f"\n{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
