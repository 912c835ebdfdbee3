"""`python -m analysis compare DIR DIR`: compare the records of two places, point by point."""

import argparse
from functools import partial
from itertools import chain
from pathlib import Path

from analysis.acceptance.changes import changes
from analysis.commands.accept import read_records
from analysis.compare.folders import FoldersComparison, compare_folders
from analysis.compare.folders_report import as_junit, comparison_text
from analysis.compare.verdicts import exit_code
from analysis.records.derive import usable_processes
from analysis.records.harvest import Harvest, harvest, plan_of
from analysis.records.paths import one_line, require_there
from analysis.shared.output import folder_for
from analysis.shared.output import write as write_file
from analysis.shared.text import command, complain
from analysis.shared.text_table import TextTable
from benchkit.errors import ConfigError
from benchkit.record.naming import escape_unprintable
from benchkit.statistics.faults import FaultLimits

warn = partial(complain, "analysis compare")

STATISTICS = ("p25", "median", "mean", "p95")
WORSE, INVALID, NO_MATCH = 1, 2, 3
"""Exit codes. NO_MATCH, if nothing was compared, equals that of unclear points."""


@command("analysis compare")
def main(arguments: list[str]) -> int:
    """Print and write the differences of two environments, and the comparison of their points.

    Returns:
        The exit code, as `parser` describes it.
    """
    options = parser().parse_args(arguments)
    require_there(options.places)
    sides = [harvest([place], usable_processes()) for place in options.places]
    plans = []
    for place, loaded in zip(options.places, sides, strict=True):
        plan = plan_of([place], {str(row["path"]) for row in loaded.rows})
        for line in (*loaded.remarks(), *(f"passed over {fault}" for fault in plan.faults)):
            warn(line)
        if not loaded.rows:
            raise ConfigError(f"no readable record.json at or below {place}")
        plans.append(plan)
    rows = [loaded.rows for loaded in sides]
    result = compare_folders(rows, plans, statistic=options.statistic, fail_on=options.fail_on)
    written = write(result, sides, options)
    changed, code = compare_acceptances(sides, options.fail_on)
    print(
        comparison_text(result, options.places, sides, TextTable.text),
        "",
        *changed,
        *written,
        sep="\n",
    )
    codes = code, exit_code(result.words)
    return WORSE if WORSE in codes else max(codes)


def compare_acceptances(sides: list[Harvest], tolerance: float) -> tuple[list[str], int]:
    """Return lines on the changes between two acceptances, and the resulting exit code."""
    read = [read_records({str(row["path"]) for row in side.rows}) for side in sides]
    for line in chain.from_iterable(flaws for _, flaws in read):
        warn(f"passed over {line}")
    (before, _), (now, _) = read
    if not (before and now):
        return [], 0
    comparable = [
        of_ranks for of_ranks in changes(before, now, FaultLimits(tolerance=tolerance)) if of_ranks
    ]
    lines = [one_line(line) for of_ranks in comparable for line in of_ranks.lines(tolerance)]
    if not comparable:
        lines = ["- The acceptances are of other ranks: nothing can be compared."]
    code = 0 if any(of_ranks.overall for of_ranks in comparable) else NO_MATCH
    if any(of_ranks.slower for of_ranks in comparable):
        code = WORSE
    return ["What changed in the acceptance, B over A:", *lines, ""], code


def write(
    result: FoldersComparison, sides: list[Harvest], options: argparse.Namespace
) -> list[str]:
    """Write the table as CSV and JUnit XML, and the page as Markdown; return a line per file."""
    folder = folder_for(options.places[0], options.output_dir)
    written = [
        write_file(folder, "compare.csv", result.points),
        write_file(
            folder, "compare.md", comparison_text(result, options.places, sides, TextTable.markdown)
        ),
        write_file(folder, "compare_junit.xml", as_junit(result, options.places[1])),
    ]
    return [escape_unprintable(f"wrote {path}") for path in written]


def share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text}: allowed are shares > 0% and < 100%, e.g. 5%")
    return value


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="benchkit-analysis compare",
        description="`benchkit-analysis compare A B`: what differs between the environments of "
        "two places, and for each point whether B is faster or slower than A. A point is worse in "
        "B, too, if a larger share of its planned runs has no result there than in A. A point "
        "with a single run on a side is neither faster nor slower.",
        epilog="Exit code: 0 nothing is worse; 1 a point is worse: slower, failed or no longer "
        "measured; 3 too little to tell: a point is unclear, or none is compared; 2 the command "
        "line is wrong, or a file cannot be used.",
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
        help="where to write (default: report/ in the first)",
    )
    return result
