"""`python -m analysis plan`: what each strategy would make of a sequence on ranks of given speeds, by arithmetic."""

import argparse
import math
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from analysis.records.harvest import one_line, require_regular
from analysis.text import render_table
from benchkit.api import lut
from benchkit.suites.ring_attention import balancing, splits
from benchkit.suites.ring_attention.splits import CostModel, Split

ALIGN, DTYPE = 32, "float32"
"""As in conf/suite/ring_attention.yaml."""


def main(arguments: list[str]) -> int:
    """Returns 0, or 2 for arguments that make no sense."""
    options = parser().parse_args(arguments)
    if problem := wrong(options):
        print(f"analysis plan: {problem}", file=sys.stderr)
        return 2
    try:
        if options.lut and Path(options.lut).exists():
            require_regular(Path(options.lut))  # a pipe would be waited for
        table_read = lut.read(options.lut, options.seq_len, options.dtype) if options.lut else None
    except (ValueError, OSError, TypeError) as error:  # TypeError: a line with too few cells
        print(f"analysis plan: --lut {options.lut}: {one_line(error)}", file=sys.stderr)
        return 2
    cost = cost_of(options)
    performance = table_read.performance if table_read else None
    table = plan(options.seq_len, options.speeds, options.align, cost, performance)
    ideal = "1"
    if options.pair_ns is not None:
        ideal_ms = 1e3 * splits.ideal_s(options.seq_len, options.speeds, cost)
        table, ideal = table.assign(time=ideal_ms * table["time"]), f"{ideal_ms:.4g} ms"
        table = table.rename(columns={"time": "time [ms]"})
    print(
        f"{options.seq_len} tokens on ranks of speed {', '.join(f'{speed:g}' for speed in options.speeds)}\n"
    )
    print(render_table(table, "simple"))
    print(f"\ntime: of the slowest rank, where the ideal (all work over all speed) is {ideal}")
    for doubt in table_read.doubts(shares_of(options.speeds)) if table_read else ():
        print(f"lut: {doubt}")
    return 0


def cost_of(options: argparse.Namespace) -> CostModel:
    """In seconds where it is known what a pair takes, else in pairs."""
    pair_s = 1.0 if options.pair_ns is None else 1e-9 * options.pair_ns
    token_s, pass_s = pair_s * options.token_cost, pair_s * options.pass_cost
    return CostModel(pair_s, token_s, not options.non_causal, not options.no_skip, pass_s)


def plan(
    seq_len: int,
    speeds: list[float],
    align: int,
    cost: CostModel,
    performance: Mapping[float, float] | None = None,
) -> pd.DataFrame:
    """One row per strategy: tokens per rank, time and efficiency against the ideal, speedup over even.

    performance: of a look-up table, by compute share in percent; without, there is no strategy lut.
    """
    shares = shares_of(speeds)
    candidates = [
        splits.even(seq_len, speeds),
        splits.uneven(seq_len, speeds, align),
        *([splits.looked_up(seq_len, shares, performance, align)] if performance else []),
        splits.formula(seq_len, shares, align),
        balancing.balanced(seq_len, speeds, cost, align),
        *([splits.zigzag(seq_len, speeds, align)] if cost.causal else []),
    ]
    ideal_s = splits.ideal_s(seq_len, speeds, cost)
    slowest_s = [max(balancing.ring_s(split, speeds, cost)) for split in candidates]
    return pd.DataFrame(
        [
            row(split, time, ideal_s, slowest_s[0])
            for split, time in zip(candidates, slowest_s, strict=True)
        ]
    )


def shares_of(speeds: list[float]) -> list[float]:
    """Percent of the fastest rank's speed."""
    return [100 * speed / max(speeds) for speed in speeds]


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
    if not all(math.isfinite(speed) and speed > 0 for speed in options.speeds):
        return f"--speeds {','.join(f'{speed:g}' for speed in options.speeds)}: allowed are finite numbers > 0"
    if options.pair_ns is not None and not (math.isfinite(options.pair_ns) and options.pair_ns > 0):
        return f"--pair-ns {options.pair_ns:g}: allowed are finite numbers > 0"
    for name, value in (("--token-cost", options.token_cost), ("--pass-cost", options.pass_cost)):
        if not (math.isfinite(value) and value >= 0):
            return f"{name} {value:g}: allowed are finite numbers >= 0"
    return ""


def speeds(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m analysis plan", description=__doc__)
    result.add_argument(
        "--seq-len", type=int, required=True, metavar="N", help="tokens of the sequence"
    )
    result.add_argument(
        "--speeds",
        type=speeds,
        required=True,
        metavar="S,S,...",
        help="of each rank; 1,0.5: half as fast",
    )
    result.add_argument(
        "--align",
        type=int,
        default=ALIGN,
        help=f"boundaries at multiples of so many tokens ({ALIGN})",
    )
    result.add_argument("--lut", metavar="FILE", help="table for strategy lut")
    result.add_argument("--dtype", default=DTYPE, help=f"of the matmuls in that table ({DTYPE})")
    result.add_argument(
        "--token-cost", type=float, default=0.0, metavar="N", help="work per token, in pairs (0)"
    )
    result.add_argument(
        "--pass-cost",
        type=float,
        default=0.0,
        metavar="N",
        help="to pass a token's keys on takes as long as N pairs (0)",
    )
    result.add_argument(
        "--pair-ns", type=float, metavar="NS", help="ns per query-key pair on a rank of speed 1"
    )
    result.add_argument(
        "--no-skip", action="store_true", help="future tiles are computed, too, and masked"
    )
    result.add_argument("--non-causal", action="store_true", help="every query sees every key")
    return result
