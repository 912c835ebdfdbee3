"""turns.md: by how much taking turns changed the cases that were timed alone, too."""

from typing import Any

import pandas as pd

from analysis.fresh_speedup import FRESH, is_changed
from analysis.repetitions import FEWEST_RUNS, over_runs
from analysis.report.naming import Namer
from analysis.table import as_markdown, identity_columns
from benchkit.statistics.compare.spread import percent

HEAD = (
    "# Taking turns\n\n"
    "The baseline and the best case of each job were timed again, each alone in fresh ranks. In "
    "turns / alone is the ratio of the medians, above 1 where turns cost time. Its interval is "
    f"between runs; below {FEWEST_RUNS} runs there is none, and the noise floor of the machine "
    "says what two identical runs differ by. Where turns changed the speedup over the baseline, "
    "all tables and plots have the one of fresh ranks.\n\n"
)


def describe(table: pd.DataFrame) -> str | None:
    """Describe all cases that were timed alone, too; None where there is none."""
    measured = table[table["turns_ratio"].notna()]
    if measured.empty:
        return None
    points = over_runs(measured, *identity_columns(table))
    name = Namer(points)
    rows = [
        {
            "case": name(row),
            "in turns [ms]": row["median_s"] * 1e3,
            "alone [ms]": row["alone_s"] * 1e3,
            "in turns / alone": row["turns_ratio"],
            "95 % interval": interval(row),
            "runs": row["num_runs"],
            "turns": verdict(row),
            **speedup_cells(row),
        }
        for _, row in points.iterrows()
    ]
    return HEAD + as_markdown(pd.DataFrame(rows), shaped=True)


def interval(row: Any) -> str:
    """Format the interval between runs of a row's ratio, "too few runs" without one."""
    if pd.isna(row["turns_ratio_low"]):
        return "too few runs"
    return f"[{row['turns_ratio_low']:.3f}, {row['turns_ratio_high']:.3f}]"


def verdict(row: Any) -> str:
    """Say whether turns changed a row's time, by its interval or else by the noise floor."""
    word = "slower" if row["turns_ratio"] > 1 else "faster"
    if pd.notna(row["turns_ratio_low"]):
        return word if is_changed(row) else "no change that shows"
    floor = row["identical_runs"]
    if pd.isna(floor):
        return f"{word}, or chance: no noise floor"
    if not is_changed(row):
        return f"within the noise floor (± {percent(floor)})"
    return f"{word}, beyond the noise floor (± {percent(floor)})"


def speedup_cells(row: Any) -> dict[str, Any]:
    """Return a case's speedup over its job's baseline, in turns and alone, and which one counts."""
    is_fresh = row["speedup_from"] == FRESH
    in_turns = row["speedup_in_turns" if is_fresh else "paired_speedup"]
    counts = "alone" if is_fresh else "in turns"
    return {
        "speedup in turns": in_turns,
        "speedup alone": row["alone_speedup"],
        "counts": counts if pd.notna(row["alone_speedup"]) else None,
    }
