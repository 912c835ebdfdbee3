"""The command line of `python -m analysis`: its subcommands and options."""

import argparse
import difflib
from collections.abc import Callable
from pathlib import Path

from analysis.commands import accept, compare, export, import_results, log, plan, predict, profile
from analysis.page.render import FILE_NAME
from analysis.report import style
from analysis.report.choice import ALL, MOST_FIGURES
from analysis.screen.terminal import add_options, parse_names, parse_positive
from analysis.shared.output import FILE_NAME as PARQUET
from analysis.table.variants import Baseline
from benchkit.version import __version__

SUBCOMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "accept": (accept.main, "which rank, link or node is slower than its peers"),
    "compare": (compare.main, "two folders of records, point by point"),
    "export": (export.main, "our records in the files of other systems"),
    "import": (import_results.main, "results of other systems beside ours"),
    "log": (log.main, "the points as runs of MLflow or Weights & Biases"),
    "plan": (plan.main, "a sequence split over ranks of unequal speed, on paper"),
    "predict": (predict.main, "collectives between more ranks"),
    "profile": (profile.main, "what the traces of profile=true say"),
}
"""By name: the function, and the subject of its output."""


def parser() -> argparse.ArgumentParser:
    width = max(map(len, SUBCOMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, (_, what) in SUBCOMMANDS.items()]
    result = argparse.ArgumentParser(
        prog="benchkit-analysis",
        description="Tables, plots and text of all records below any number of folders.",
        epilog="\n".join(["subcommands, each with its --help:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--version", action="version", version=f"benchkit {__version__}")
    result.add_argument(
        "places",
        metavar="DIR",
        nargs="+",
        type=Path,
        help="folders of records, or record files",
    )
    add_report_options(result)
    add_figure_options(result)
    add_options(result)
    return result


def add_report_options(result: argparse.ArgumentParser) -> None:
    """Add the options of the baseline, the output, and the printed texts."""
    result.add_argument(
        "--output-dir",
        metavar="D",
        type=Path,
        help="where to write (default: report/ in the first)",
    )
    result.add_argument(
        "--baseline",
        metavar="KEY=VALUE[,KEY=VALUE]",
        type=Baseline.parse,
        help="what speedups compare with, e.g. world_size=2 (default: the smallest of several "
        "ranks)",
    )
    result.add_argument(
        "--split",
        choices=("host",),
        help="host: tell the nodes of a sweep apart, also where they are of one kind",
    )
    result.add_argument(
        "--show",
        metavar="NAME[,NAME]",
        type=parse_names,
        default=(),
        help="print these texts of the report instead of its table, e.g. analysis.txt",
    )
    result.add_argument(
        "--parquet",
        action="store_true",
        help=f"also write {PARQUET}: the rows of combined.csv, with types; needs pyarrow",
    )
    result.add_argument(
        "--html",
        action="store_true",
        help=f"also write {FILE_NAME}: one page with figures, tables and samples, which needs no "
        "server and no network",
    )


def add_figure_options(result: argparse.ArgumentParser) -> None:
    """Add the options of figures."""
    result.add_argument(
        "--compare-at",
        metavar="MIB",
        type=float,
        help="also draw backends beside each other at this data_size (default: the largest that "
        "all have)",
    )
    result.add_argument(
        "--figures",
        metavar=f"N|{ALL}",
        type=most_in,
        default=MOST_FIGURES,
        help=f"how many are drawn, at least one of each suite (default: {MOST_FIGURES})",
    )
    result.add_argument(
        "--format",
        metavar="FORMAT[,FORMAT]",
        type=formats_in,
        default=style.FORMATS[:1],
        help=f"of the figures: {', '.join(style.FORMATS)} (default: {style.FORMATS[0]})",
    )


def most_in(text: str) -> int | None:
    """Parse the number of figures; None for all."""
    return None if text == ALL else parse_positive(text)


def formats_in(text: str) -> tuple[str, ...]:
    """Parse a list of formats, each once.

    Raises:
        argparse.ArgumentTypeError: for an unknown format.
    """
    formats = tuple(dict.fromkeys(parse_names(text)))
    if wrong := [name for name in formats if name not in style.FORMATS]:
        allowed = ", ".join(style.FORMATS)
        raise argparse.ArgumentTypeError(f"{wrong[0]}: allowed are {allowed}")
    return formats


def suggest_subcommand(word: str) -> str:
    """Suggest the subcommand that is nearest to a mistyped word; "" without a near one."""
    near = difflib.get_close_matches(word, SUBCOMMANDS, n=1)
    return f"; did you mean the subcommand {near[0]}?" if near else ""
