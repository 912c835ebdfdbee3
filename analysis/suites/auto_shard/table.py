"""Writes the report of auto_shard: the same program on one device and on several."""

from collections.abc import Iterator

import pandas as pd

from analysis.groups import titled
from analysis.run_spread import describe_runs
from analysis.suites.auto_shard.rows import SUITE, Group, groups_of
from analysis.suites.auto_shard.sections import (
    Lines,
    comparison,
    findings,
    phases,
    predicted,
    rivals,
    summary,
)
from analysis.table import as_markdown
from analysis.text import format_settings
from benchkit.suites.auto_shard.names import END_TO_END, RESIDENT, WEAK

SCOPES = {
    RESIDENT: "operands and result stay on the devices: compute + communicate",
    END_TO_END: "operands are created, the result is fetched: all four phases",
}
SHOWN = ("device", "device_name", "backend", "dtype", "scaling")
CONVENTIONS = (
    "Times are medians of the slowest rank, per step, with the rate of useful operations. "
    "Speedups{of} are over the fewest devices, with 95 % intervals, between cases of one job. "
    "Where one sharding is shown it is {main}."
)
LIMIT_NOTE = (
    "independent: a whole workload on each device, what this machine can do at all; "
    "the limit of the others."
)
RIVALS_NOTE = "How many times as fast as they auto is: ratio of medians."
PHASES_NOTE = (
    "Of each phase the rank that was longest in it, so phases may add up to more than a step."
)
PREDICTED_NOTE = (
    "Amdahl's law, fitted to the speedups on {counts} devices by least squares; "
    "nothing here was measured."
)


def write(table: pd.DataFrame) -> dict[str, str]:
    texts = {}
    for group in groups_of(table):
        text = "\n\n".join(filter(None, parts_of(group)))
        texts[f"{SUITE}{group.suffix}.md"] = titled(text, group.suffix)
    return texts


def parts_of(group: Group) -> Iterator[str]:
    """Yield the paragraphs of the report, then the sections that have rows."""
    rows = group.rows
    weak = rows["scaling"].iloc[0] == WEAK
    known = [name for name in SHOWN if rows[name].notna().all()]
    yield "# The same program on one device and on several"
    yield CONVENTIONS.format(of=" of the rate of work" if weak else "", main=group.main)
    yield " ".join(describe_runs(rows[rows["status"] == "ok"]))
    yield f"All rows: {format_settings(rows, known)}."
    for title, note, lines in sections_of(group, weak):
        if shown := list(lines):
            table = as_markdown(pd.DataFrame(shown), shaped=True)
            yield "\n\n".join(filter(None, (f"## {title}", note, table)))


def sections_of(group: Group, weak: bool) -> Iterator[tuple[str, str, Lines]]:
    """Yield each section's title, its note ("" for none) and its rows."""
    for scope, text in SCOPES.items():
        yield f"{scope}: {text}", "", comparison(group, scope)
    yield "Summary", LIMIT_NOTE, summary(group.further)
    yield "Auto against the others", RIVALS_NOTE, rivals(group)
    yield "Why not more", "", findings(group)
    yield "Phases", PHASES_NOTE, phases(group)
    if not weak:
        note = PREDICTED_NOTE.format(counts="/".join(map(str, group.counts[1:])))
        yield "More devices than here (predicted)", note, predicted(group)
