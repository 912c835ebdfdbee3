"""`python -m analysis DIR...`: from record files to tables, plots and sentences; for its subcommands see --help."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from analysis.commands import import_results, plan, predict, profile
from analysis.records.harvest import harvest, missing, printable
from analysis.report.attempts import or_left_out
from analysis.report.report import write_report
from analysis.speedup import Baseline, BaselineError, speedups, unpaired
from analysis.table import as_text, combine

SUBCOMMANDS: dict[str, Callable[[list[str]], int]] = {
    "import": import_results.main,
    "plan": plan.main,
    "predict": predict.main,
    "profile": profile.main,
}


def main(arguments: list[str] | None = None) -> int:
    """Returns 0; 1 where there is no record to read; 2 for arguments that make no sense."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and (subcommand := SUBCOMMANDS.get(given[0])):
        return printed(lambda: subcommand(given[1:]))
    options = parser().parse_args(given)
    if why := missing(options.places):
        print(f"analysis: {why}", file=sys.stderr)
        return 2
    found = harvest(options.places)
    for line in found.remarks():
        print(f"analysis: {line}", file=sys.stderr)
    if not found.rows:
        places = printable(", ".join(map(str, options.places)))
        what = "readable record.json" if found.num_files else "record.json"
        print(f"analysis: no {what} at or below {places}; run `python -m benchkit` first", file=sys.stderr)
        return 1
    first = options.places[0]
    folder = options.output_dir or (first if first.is_dir() else first.parent) / "analysis"
    table = combine(found.rows)
    try:
        if options.baseline:
            speedups(table, options.baseline)  # refused before anything is written
            if why := unpaired(table, options.baseline):
                print(f"analysis: {why}", file=sys.stderr)
        written = list(write_report(table, folder, options.baseline, found.ranks))
    except (BaselineError, OSError) as error:
        print(f"analysis: {error}", file=sys.stderr)
        return 2
    text = or_left_out("table on screen", lambda: as_text(table)) or ""
    lines = [text, "", *(printable(f"wrote {path}") for path in written)]
    return printed(lambda: print("\n".join(lines)) or 0)


def printed(show: Callable[[], int]) -> int:
    """What `show` returns, or 0 where its reader leaves early, as `| head` does."""
    with suppress(BrokenPipeError):
        code = show()
        sys.stdout.flush()
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m analysis",
        description="Tables, plots and text of all records below any number of folders.",
        epilog="Also `python -m analysis import --help`: results of nccl-tests and OSU beside ours; "
        "`python -m analysis plan --help`: a sequence split over ranks of unequal speed, on paper; "
        "`python -m analysis profile --help`: what the traces of profile=true say; "
        "`python -m analysis predict --help`: collectives on more ranks.",
    )
    result.add_argument("places", metavar="DIR", nargs="+", type=Path, help="folders of records, or record files")
    result.add_argument("--output-dir", metavar="D", type=Path, help="where to write (default: analysis/ in the first)")
    result.add_argument(
        "--baseline",
        metavar="KEY=VALUE[,KEY=VALUE]",
        type=Baseline.parse,
        help="what speedups compare with, e.g. world_size=2 (default: the smallest of several ranks)",
    )
    return result


if __name__ == "__main__":
    sys.exit(main())
