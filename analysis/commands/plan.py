"""`python -m analysis plan`: compare strategies that split a sequence over ranks, by the model."""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from analysis.records.paths import one_line
from analysis.shared.text import command
from analysis.shared.text_table import table_of
from benchkit.api import lut
from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.suites.ring_attention import splits
from benchkit.suites.ring_attention.splits import CostModel, Split

ALIGN = 32
DTYPE = "float32"
"""Both as in conf/suite/ring_attention.yaml."""


@command("analysis plan")
def main(arguments: list[str]) -> int:
    """Print a table of all strategies; return 0, or 2 for invalid arguments."""
    options = parser().parse_args(arguments)
    check(options)
    try:
        lut_table = read_lut(options)
    except (ValueError, OSError, TypeError) as error:  # TypeError: a line with too few cells
        raise ConfigError(f"--lut {options.lut}: {one_line(error)}") from None
    cost = cost_of(options)
    performance = lut_table.performance if lut_table else None
    table = plan(options.seq_len, options.speeds, options.align, cost, performance)
    ideal = "1"
    if options.pair_ns is not None:
        ideal_ms = 1e3 * splits.ideal_s(options.seq_len, options.speeds, cost)
        ideal = f"{ideal_ms:.4g} ms"
        table = table.assign(time=ideal_ms * table["time"]).rename(columns={"time": "time [ms]"})
    speed_list = ", ".join(f"{speed:g}" for speed in options.speeds)
    print(f"{options.seq_len} tokens on ranks of speed {speed_list}\n")
    print(table_of(table).text())
    print(f"\ntime: of the slowest rank, where the ideal (all work over all speed) is {ideal}")
    for doubt in lut_table.doubts(shares_of(options.speeds)) if lut_table else ():
        print(f"lut: {doubt}")
    return 0


def read_lut(options: argparse.Namespace) -> lut.Table | None:
    """Read the look-up table, if there is one.

    Raises:
        ValueError, OSError, TypeError: the file is not a look-up table.
    """
    if not options.lut:
        return None
    if Path(options.lut).exists():
        files.require_regular(Path(options.lut).resolve())  # Reading a pipe would block.
    return lut.read(options.lut, options.seq_len, options.dtype)


def cost_of(options: argparse.Namespace) -> CostModel:
    """Return the cost model, in seconds if the time of a pair is known, else in pairs."""
    pair_s = 1.0 if options.pair_ns is None else 1e-9 * options.pair_ns
    token_s = pair_s * options.token_cost
    pass_s = pair_s * options.pass_cost
    return CostModel(pair_s, token_s, not options.non_causal, not options.no_skip, pass_s)


def plan(
    seq_len: int,
    speeds: list[float],
    align: int,
    cost: CostModel,
    performance: Mapping[float, float] | None = None,
) -> pd.DataFrame:
    """Return a row per strategy: tokens per rank, time, efficiency, and speedup over even.

    Time and efficiency are relative to the ideal, total work / total speed.

    Args:
        align: boundaries are multiples of this number of tokens.
        performance: values of a look-up table by compute share in percent; None omits strategy lut.
    """
    shares = shares_of(speeds)
    candidates = [splits.even(seq_len, speeds), splits.uneven(seq_len, speeds, align)]
    if performance:
        candidates.append(splits.looked_up(seq_len, shares, performance, align))
    candidates.append(splits.formula(seq_len, shares, align))
    candidates.append(splits.balanced(seq_len, speeds, cost, align))
    if cost.causal:
        candidates.append(splits.zigzag(seq_len, speeds, align))
    ideal_s = splits.ideal_s(seq_len, speeds, cost)
    slowest_s = [max(splits.ring_s(split, speeds, cost)) for split in candidates]
    even_s = slowest_s[0]
    pairs = zip(candidates, slowest_s, strict=True)
    return pd.DataFrame([row(split, time_s, ideal_s, even_s) for split, time_s in pairs])


def shares_of(speeds: list[float]) -> list[float]:
    return [100 * speed / max(speeds) for speed in speeds]


def row(split: Split, slowest_s: float, ideal_s: float, even_s: float) -> dict[str, str | float]:
    return {
        "strategy": split.strategy,
        "tokens per rank": " ".join(map(str, split.tokens)),
        "time": slowest_s / ideal_s,
        "efficiency [%]": 100 * ideal_s / slowest_s,
        "speedup over even": even_s / slowest_s,
    }


def check(options: argparse.Namespace) -> None:
    """Raise ConfigError for an argument out of range."""
    if options.seq_len < 1 or options.align < 1:
        numbers = f"--seq-len {options.seq_len} --align {options.align}"
        raise ConfigError(f"{numbers}: allowed are numbers >= 1")
    if not all(is_positive(speed) for speed in options.speeds):
        speed_list = ",".join(f"{speed:g}" for speed in options.speeds)
        raise ConfigError(f"--speeds {speed_list}: allowed are finite numbers > 0")
    if options.pair_ns is not None and not is_positive(options.pair_ns):
        raise ConfigError(f"--pair-ns {options.pair_ns:g}: allowed are finite numbers > 0")
    for name, value in (("--token-cost", options.token_cost), ("--pass-cost", options.pass_cost)):
        if not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"{name} {value:g}: allowed are finite numbers >= 0")


def is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def speeds(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="benchkit-analysis plan",
        description="`benchkit-analysis plan`: what each strategy would make of a sequence on "
        "ranks of given speeds, by arithmetic.",
    )
    add = result.add_argument
    add("--seq-len", type=int, required=True, metavar="N", help="tokens of the sequence")
    speeds_help = "of each rank; 1,0.5: half as fast"
    add("--speeds", type=speeds, required=True, metavar="S,S,...", help=speeds_help)
    align_help = f"boundaries at multiples of so many tokens ({ALIGN})"
    add("--align", type=int, default=ALIGN, help=align_help)
    add("--lut", metavar="FILE", help="table for strategy lut")
    add("--dtype", default=DTYPE, help=f"of the matmuls in that table ({DTYPE})")
    token_help = "work per token, in pairs (0)"
    add("--token-cost", type=float, default=0.0, metavar="N", help=token_help)
    pass_help = "to pass a token's keys on takes as long as N pairs (0)"
    add("--pass-cost", type=float, default=0.0, metavar="N", help=pass_help)
    pair_help = "ns per query-key pair on a rank of speed 1"
    add("--pair-ns", type=float, metavar="NS", help=pair_help)
    add("--no-skip", action="store_true", help="future tiles are computed, too, and masked")
    add("--non-causal", action="store_true", help="every query sees every key")
    return result
