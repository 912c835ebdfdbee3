"""rank_devices.md: in what the places of ranks and the states of their GPUs differ."""

import pandas as pd

from analysis.records.environments import TOLERANCE
from analysis.records.rank_devices import PLACE, STATE
from analysis.table import as_markdown

HEAD = (
    "# Ranks and their devices\n\n"
    "What differs between the ranks of a run. Clocks, power and temperature are medians over its "
    f"cases, and shown where ranks differ by more than {TOLERANCE:.0%}.\n\n"
)
UNITS = {
    "gpu_sm_mhz": "SM clock [MHz]", "gpu_mem_mhz": "memory clock [MHz]",
    "gpu_power_w": "power [W]", "gpu_temperature_c": "temperature [°C]",
}  # fmt: skip


def describe(per_rank: pd.DataFrame) -> str | None:
    """Return the page; None where the ranks of no run differ."""
    tables = []
    for run, own in per_rank.groupby("run", dropna=False, sort=False):
        differing = of_run(own)
        if len(differing.columns) > 1:
            tables.append(f"## {run}\n\n" + as_markdown(differing, shaped=True))
    return HEAD + "\n\n".join(tables) if tables else None


def of_run(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per rank, or more if its place changed, with the columns in which ranks differ.

    Args:
        rows: one per rank and case, as in per_rank.csv.
    """
    place = ["rank", *(name for name in PLACE if name in rows)]
    state = [name for name in STATE if name in rows]
    by_rank = rows.groupby(place, dropna=False, as_index=False)[state].median()
    kept = ["rank", *(name for name in place[1:] if by_rank[name].nunique(dropna=False) > 1)]
    for name in state:
        lowest, highest = by_rank[name].min(), by_rank[name].max()
        if highest - lowest > TOLERANCE * lowest:
            kept.append(name)
    return by_rank[kept].rename(columns=UNITS)
