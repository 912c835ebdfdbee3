"""`python -m analysis compare DIR DIR` compares the records of two places, point by point."""

import argparse
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from analysis.commands.comparison import INDICATIVE, SIDES, Comparison, compare, fewest_runs
from analysis.records.environments import differences
from analysis.records.harvest import Harvest, harvest, missing, printable
from analysis.text import complain, named, render_table
from benchkit.statistics.compare.verdicts import exit_code

warn = partial(complain, "analysis compare")

STATISTICS = {name: f"{name}_s" for name in ("p25", "median", "mean", "p95")}
MOST_NAMED = 5
"""How many unmatched points are named; further ones are only counted."""
NOT_IN_TURNS = (
    "A and B were not measured in turns: all that changed between them, known or not, is in the "
    "ratios."
)
NO_MATCH = 3
"""Exit code where no point is in both places, as for UNCLEAR: nothing was compared."""


def main(arguments: list[str]) -> int:
    """Print and write what differs between two environments, and how their points compare.

    Returns:
        0; 1 where a point is slower, 3 where one is unclear or none could be compared; 2 for
        invalid arguments, and where nothing could be read. A point with a single run on a side
        counts for none of these.
    """
    options = parser().parse_args(arguments)
    if why := missing(options.places):
        warn(why)
        return 2
    sides = [harvest([place]) for place in options.places]
    for place, found in zip(options.places, sides, strict=True):
        for line in found.remarks():
            warn(line)
        if not found.rows:
            warn(f"no readable record.json at or below {printable(str(place))}")
            return 2
    rows = [found.rows for found in sides]
    statistic = STATISTICS[options.statistic]
    result = compare(*rows, statistic=statistic, fail_on=options.fail_on)
    try:
        written = write(result, sides, options)
    except OSError as error:
        warn(error)
        return 2
    print(page(result, sides, options, "simple"), "", *written, sep="\n")
    return exit_code(result.words) if len(result.points) else NO_MATCH


def page(result: Comparison, sides: list[Harvest], options: argparse.Namespace, style: str) -> str:
    """Return the text of the comparison; `style` is one of tabulate's."""
    parts = [
        "\n".join(map(origin, SIDES, options.places, sides)),
        environments(sides, style),
        points_table(result, style) if len(result.points) else "No point is in both.",
        "\n".join(notes(result, options)),
    ]
    return "\n\n".join(parts)


def origin(side: str, place: Path, found: Harvest) -> str:
    """Return what a side is: its place, how many runs it has, and when they started."""
    runs = len({row["run"] for row in found.rows})
    started = sorted(str(row["started_at"]) for row in found.rows)
    return printable(
        f"{side}: {place}: {runs} run{'s' * (runs > 1)}, started {started[0]} to {started[-1]}"
    )


def environments(sides: list[Harvest], style: str) -> str:
    """Return a table of what differs between the environments of both sides."""
    found = differences(*(side.environments for side in sides))
    table = pd.DataFrame(found, columns=["environment", *SIDES])
    if table.empty:
        return "Their environments do not differ, as far as records tell."
    # Versions are no numbers: 2.10 is not 2.1.
    return tabulate(table.map(printable), "keys", style, showindex=False, disable_numparse=True)


def points_table(result: Comparison, style: str) -> str:
    """Return the table of the points; settings that all of them share are in a line above it."""
    points = result.points
    shared = [name for name in result.settings if points[name].nunique(dropna=False) == 1]
    shown = points[[name for name in result.settings if name not in shared]].copy()
    for name in shown:
        shown[name] = shown[name].map(partial(named, name), na_action="ignore")
    for side in SIDES:
        shown[f"{side} [ms]"] = 1e3 * points[f"{side}_s"]
    shown["runs"] = points["A_runs"].astype(str) + " / " + points["B_runs"].astype(str)
    for side in SIDES:
        shown[f"{side} sd of runs [%]"] = 100 * pd.to_numeric(points[f"{side}_spread"])
    shown["B / A"] = points["ratio"]
    if "ratio_low" in points:
        shown["interval"] = [
            "" if pd.isna(low) else f"[{low:.3f}, {high:.3f}]"
            for low, high in zip(points["ratio_low"], points["ratio_high"], strict=True)
        ]
    shown["verdict"] = points["verdict"]
    first = points.iloc[0]
    held = [f"{name} {named(name, first[name])}" for name in shared if pd.notna(first[name])]
    table = render_table(shown.dropna(axis=1, how="all"), style)
    return printable(f"All points: {', '.join(held)}\n\n{table}")


def notes(result: Comparison, options: argparse.Namespace) -> Iterator[str]:
    """Yield sentences on what was compared, what was not, and how far it can be trusted."""
    if names := result.unmatched:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        listed = "; ".join(names[:MOST_NAMED])
        yield printable(f"Unmatched points: {len(names)}: {listed}{more}")
    if not len(result.points):
        return
    counts = Counter(result.points["verdict"])
    num_indicative = counts.pop(INDICATIVE, 0)
    if counts:
        words = ", ".join(f"{count} {word}" for word, count in counts.items())
        yield (
            f"{words}: of {options.statistic}, where {100 * options.fail_on:.3g} % matter; "
            "intervals by the rank sum of the runs, at an error rate of 5 % over all points. One "
            f"may need {fewest_runs(counts.total())} runs on each side."
        )
    if num_indicative:
        yield (
            f"{num_indicative} {INDICATIVE}: a side has a single run, and how much runs differ is "
            "not known (measure both sides with repeat=5)."
        )
    yield NOT_IN_TURNS


def write(result: Comparison, sides: list[Harvest], options: argparse.Namespace) -> list[str]:
    """Write the table as CSV and the page in Markdown; return a line for each file."""
    first: Path = options.places[0]
    folder: Path = options.output_dir
    folder = folder or (first if first.is_dir() else first.parent) / "analysis"
    folder.mkdir(parents=True, exist_ok=True)
    figures, text = folder / "compare.csv", folder / "compare.md"
    result.points.to_csv(figures, index=False)
    text.write_text(page(result, sides, options, "github") + "\n", encoding="utf-8")
    return [printable(f"wrote {path}") for path in (figures, text)]


def share(text: str) -> float:
    """Read a share such as "5%" or "0.05"."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text}: allowed are shares > 0% and < 100%, e.g. 5%")
    return value


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m analysis compare",
        description="`python -m analysis compare A B`: what differs between the environments of "
        "two places, and for each point that both have measured whether B is faster or slower "
        "than A. Exit code 1 where a point is slower, 3 where one is unclear; points with a "
        "single run on a side count for neither.",
    )
    result.add_argument("places", metavar="DIR", nargs=2, type=Path, help="folders of records")
    result.add_argument(
        "--fail-on",
        metavar="SHARE",
        type=share,
        default=0.05,
        help="the least change that matters (5%%)",
    )
    result.add_argument(
        "--statistic",
        choices=STATISTICS,
        default="p25",
        help="the figure of each run (p25)",
    )
    result.add_argument(
        "--output-dir",
        metavar="D",
        type=Path,
        help="where to write (default: analysis/ in the first)",
    )
    return result
