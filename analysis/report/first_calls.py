"""Says what warming up changes, from cases whose first call was measured."""

from collections.abc import Iterator

import pandas as pd

from analysis.records.first_calls import NEAR
from analysis.report.naming import Namer, milliseconds


def describe(measured: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence per case whose first calls were timed.

    Args:
        measured: rows of the combined table that are ok.
    """
    name = Namer(measured)
    cold = measured[measured["first_call_ratio"].notna()]
    for row in name.rows(cold, "first_call_s", "first_call_ratio", "warm_from_call", "num_samples"):
        warm_s = row["first_call_s"] / row["first_call_ratio"]
        later = row["num_samples"] - row["num_samples"] // 2
        yield (
            f"{name(row)}: the first call takes {milliseconds(row['first_call_s'])}, "
            f"{row['first_call_ratio']:.3g} times the median of the last {later:.0f} "
            f"({milliseconds(warm_s)}); call {row['warm_from_call']:.0f} is the first that takes "
            f"at most {NEAR:g} times that."
        )
