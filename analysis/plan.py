"""`python -m analysis plan`: what each strategy would make of a sequence on ranks of given speeds, by arithmetic."""

import argparse
import sys

import pandas as pd

from analysis.table import laid_out
from benchkit import splits
from benchkit.splits import CostModel, Split


def main(arguments: list[str]) -> int:
    """Returns 0, or 2 for arguments that make no sense."""
    options = parser().parse_args(arguments)
    if problem := wrong(options):
        print(f"analysis plan: {problem}", file=sys.stderr)
        return 2
    cost = CostModel(token_s=options.token_cost, causal=not options.non_causal, skips=not options.no_skip)
    table = plan(options.seq_len, options.speeds, options.align, cost)
    print(f"{options.seq_len} tokens on ranks of speed {', '.join(f'{speed:g}' for speed in options.speeds)}\n")
    print(laid_out(table, "simple"))
    print("\ntime: of the slowest rank, where the ideal (all work over all speed) is 1")
    return 0


def plan(seq_len: int, speeds: list[float], align: int, cost: CostModel) -> pd.DataFrame:
    """One row per strategy: tokens per rank, time and efficiency against the ideal, speedup over even."""
    shares = [100 * speed / max(speeds) for speed in speeds]
    candidates = [
        splits.even(seq_len, speeds, align),
        splits.uneven(seq_len, speeds, align),
        splits.formula(seq_len, shares, align),
        splits.balanced(seq_len, speeds, cost, align),
        *([splits.zigzag(seq_len, speeds, align)] if cost.causal else []),
    ]
    ideal_s = splits.ideal_s(seq_len, speeds, cost)
    slowest_s = [max(splits.predict(split, speeds, cost)) for split in candidates]
    return pd.DataFrame(
        [row(split, time, ideal_s, slowest_s[0]) for split, time in zip(candidates, slowest_s, strict=True)]
    )


def row(split: Split, slowest_s: float, ideal_s: float, even_s: float) -> dict[str, str | float]:
    return {
        "strategy": split.strategy,
        "tokens per rank": " ".join(map(str, split.tokens)),
        "time": slowest_s / ideal_s,
        "efficiency [%]": 100 * ideal_s / slowest_s,
        "speedup over even": even_s / slowest_s,
    }


def wrong(options: argparse.Namespace) -> str:
    """What is wrong with the arguments, and what is allowed; "" where nothing is."""
    if options.seq_len < 1 or options.align < 1:
        return f"--seq-len {options.seq_len} --align {options.align}: allowed are numbers >= 1"
    if min(options.speeds) <= 0:
        return f"--speeds {','.join(f'{speed:g}' for speed in options.speeds)}: allowed are numbers > 0"
    return "" if options.token_cost >= 0 else f"--token-cost {options.token_cost:g}: allowed are numbers >= 0"


def speeds(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m analysis plan", description=__doc__)
    result.add_argument("--seq-len", type=int, required=True, metavar="N", help="tokens of the sequence")
    result.add_argument(
        "--speeds", type=speeds, required=True, metavar="S,S,...", help="of each rank; 1,0.5: half as fast"
    )
    result.add_argument("--align", type=int, default=64, help="boundaries at multiples of so many tokens (64)")
    result.add_argument("--token-cost", type=float, default=0.0, help="work per token, in query-key pairs (0)")
    result.add_argument("--no-skip", action="store_true", help="future tiles are computed, too, and masked")
    result.add_argument("--non-causal", action="store_true", help="every query sees every key")
    return result
