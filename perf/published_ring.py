"""Compare published times of ring attention on unequal GPUs with those of our cost model.

    python -m perf.published_ring sweep_results.csv

The file is that of hpml_testing's run_sweep.py. Per cell, a length and a share of the second GPU, two
published times fix the model: the reference on equal GPUs gives the time of a pair, the even split the
speed of the second GPU. All other times are predictions.
"""

import argparse
import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from benchkit.suites.ring_attention import splits
from benchkit.suites.ring_attention.splits import CostModel, Split

ALIGN = 32
THEIRS = ("even", "uneven", "lut", "formula")
PREDICTED = ("uneven", "lut", "formula")
COLUMNS = ("tokens", "share [%]", "speed", "even", "best published", "`balanced`", "`zigzag`", "best / `balanced`")


@dataclass(frozen=True)
class Cell:
    """One length and share: published times in ms and tokens of the two ranks, by split."""

    seq_len: int
    share: int
    times_ms: dict[str, float]
    tokens: dict[str, tuple[int, int]]

    @property
    def speed(self) -> float:
        """Return the speed of the second GPU relative to the first."""
        return min(1.0, self.times_ms["reference_homogeneous"] / self.times_ms["even"])

    @property
    def best(self) -> str:
        return min(THEIRS, key=lambda name: self.times_ms[name])

    def milliseconds(self, split: Split) -> float:
        """Return the time of a split by the model: each rank computes the square of its own block and masks it."""
        pair_ms = 2 * self.times_ms["reference_homogeneous"] / self.seq_len**2
        return max(splits.ring_s(split, [1.0, self.speed], CostModel(pair_ms, skips=False)))

    def predicted_ms(self, name: str) -> float:
        first, _ = self.tokens[name]
        return self.milliseconds(Split(name, (((0, first),), ((first, self.seq_len),))))

    def balanced_ms(self) -> float:
        cost = CostModel(skips=False)
        return self.milliseconds(splits.balanced(self.seq_len, [1.0, self.speed], cost, ALIGN))

    def zigzag_ms(self) -> float:
        return self.milliseconds(splits.zigzag(self.seq_len, [1.0, self.speed], ALIGN))


def read(path: Path) -> list[Cell]:
    times: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    tokens: dict[tuple[int, int], dict[str, tuple[int, int]]] = defaultdict(dict)
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            key, name = (int(row["seq_len"]), int(row["slowdown_pct"])), row["split_type"]
            times[key][name] = float(row["overall_latency_ms"])
            tokens[key][name] = int(row["rank0_tokens"]), int(row["rank1_tokens"])
    return [Cell(*key, times[key], tokens[key]) for key in times]


def line(cell: Cell) -> str:
    best, balanced = cell.times_ms[cell.best], cell.balanced_ms()
    cells = [
        f"{cell.seq_len}", f"{cell.share}", f"{cell.speed:.3f}", f"{cell.times_ms['even']:.4g}",
        f"{best:.4g} ({cell.best})", f"{balanced:.4g}", f"{cell.zigzag_ms():.4g}", f"{best / balanced:.2f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def off(cell: Cell, name: str) -> float:
    """Return the published time of a split over the predicted one."""
    return cell.times_ms[name] / cell.predicted_ms(name)


def spread(ratios: list[float]) -> str:
    return f"{geometric_mean(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} cells)"


def summary(cells: list[Cell]) -> list[str]:
    pairs = [(cell, name) for cell in cells for name in PREDICTED if name in cell.tokens and cell.tokens[name][1]]
    whole = [(cell, name) for cell, name in pairs if cell.tokens[name][0] % ALIGN == 0]
    ragged = [pair for pair in pairs if pair not in whole]
    found = {
        f"published / predicted, lengths at multiples of {ALIGN}": [off(cell, name) for cell, name in whole],
        "published / predicted, other lengths": [off(cell, name) for cell, name in ragged],
        "best published over even": [cell.times_ms["even"] / cell.times_ms[cell.best] for cell in cells],
        "`balanced` over even": [cell.times_ms["even"] / cell.balanced_ms() for cell in cells],
        "`balanced` over the best published": [cell.times_ms[cell.best] / cell.balanced_ms() for cell in cells],
        "`zigzag` over the best published": [cell.times_ms[cell.best] / cell.zigzag_ms() for cell in cells],
    }
    return [f"- {what}: {spread(ratios)}" for what, ratios in found.items() if ratios]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    cells = read(parser.parse_args().file)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    print("\n".join(map(line, cells)))
    print("\nGeometric means, with the lowest and the highest:")
    print("\n".join(summary(cells)))


if __name__ == "__main__":
    main()
