"""`python -m analysis DIR...`: tables, plots and sentences of record files.

`python -m analysis --help` names the subcommands.
"""

import argparse
import gc
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.commands.options import SUBCOMMANDS, parser, suggest_subcommand
from analysis.page import render
from analysis.records.derive import usable_processes
from analysis.records.environments import Facts
from analysis.records.harvest import Harvest, harvest, suspend_collection
from analysis.records.paths import require_there
from analysis.report.parts import ReportData, with_ids
from analysis.report.report import write_report
from analysis.screen.terminal import NoRowError, view_of
from analysis.shared import output
from analysis.shared.discover import make_or_leave_out
from analysis.shared.output import folder_for
from analysis.shared.text import command, complain
from analysis.table.combine import combine
from analysis.table.frames import nothing_found, typed_table
from analysis.table.repetitions import aggregate_repetitions
from analysis.table.variants import explain_no_comparison, require_baseline_rows
from benchkit.api.registry import installed_plugins
from benchkit.errors import ConfigError
from benchkit.record.naming import escape_unprintable
from benchkit.streams import protect_streams

OF_REPORT = ("output_dir", "baseline", "format", "show", "parquet", "html", "figures")
OF_VIEW = ("--columns", "--sort", "--top", "--where", "--group-by")
"""Options that exclude each other."""
warn = partial(complain, "analysis")


def main(arguments: list[str] | None = None) -> int:
    """Write the report of some folders, or run a subcommand.

    Args:
        arguments: command line without the program; by default that of this process.

    Returns:
        0; 1 without a readable record; 2 for invalid arguments.
    """
    protect_streams("analysis")
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in SUBCOMMANDS:
        subcommand, _ = SUBCOMMANDS[arguments[0]]
        try:
            return subcommand(arguments[1:])
        except Exception:
            traceback.print_exc()
        return 2  # 1 may mean that something is slower
    return report(arguments)


@command("analysis")
def report(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        require_there(options.places)
    except FileNotFoundError as error:
        raise ConfigError(f"{error}{suggest_subcommand(arguments[0])}") from None
    check(options)
    with suspend_collection():
        records = harvest(options.places, usable_processes())
        table = combine(records.rows, options.split == "host") if records.rows else None
        gc.freeze()  # records live to the end; searching them for cycles would take long
    for line in records.remarks():
        warn(line)
    if table is None:
        warn(nothing_found(records, options.places))
        return 1
    for suite, reason in installed_plugins().left_out.items():
        if (table["suite"] == suite).any():
            warn(f"left out {reason}")
    try:
        text, fault = text_of(table, records, options)
    except NoRowError as error:
        warn(error)
        return 1
    print(text)
    if fault:
        warn(f"{fault}; --output-dir D writes elsewhere")
    return 1 if fault else 0


def check(options: argparse.Namespace) -> None:
    """Raise ConfigError for options that exclude each other, or whose library is missing."""
    report_options = [
        name for name in OF_REPORT if getattr(options, name) != parser().get_default(name)
    ]
    if report_options and not view_of(options).is_whole:
        views = f"{', '.join(OF_VIEW)} print a table and write no report; leave one out"
        raise ConfigError(f"--{report_options[0].replace('_', '-')}: {views}")
    if options.html:
        render.require_libraries()
    if options.parquet:
        output.require_pyarrow()


def text_of(
    table: pd.DataFrame, records: Harvest, options: argparse.Namespace
) -> tuple[str, OSError | None]:
    """Return the requested view; without one, write the report and name its files.

    Returns:
        The text, and the error that kept a file from being written.
    """
    view = view_of(options)
    if not view.is_whole:
        return view.text_of(aggregate_repetitions(table)), None
    typed = typed_table(records.rows) if options.parquet else None
    records.rows.clear()  # the table has them
    shown = with_ids(table) if options.html else table
    parts = ReportData(shown, options.baseline, records.ranks, options.compare_at)
    if options.baseline:
        require_baseline_rows(shown, options.baseline)  # before any file is written
        if reason := explain_no_comparison(shown, options.baseline):
            warn(reason)
    written: list[Path] = []
    fault = None
    try:
        written.extend(files_of(parts, typed, records.environments, options))
    except OSError as error:
        fault = error
    written = list(dict.fromkeys(written))
    text = "" if fault else texts_of(written, options.show)
    if not text:
        text = make_or_leave_out("screen", lambda: parts.screen.text()) or ""
    return "\n".join([text, *file_lines(written)]), fault


def file_lines(written: Sequence[Path]) -> Iterator[str]:
    """Yield a line on the files of a report, and the paths of its page and its Parquet file."""
    if written:
        files = "1 file" if len(written) == 1 else f"{len(written)} files"
        yield escape_unprintable(f"{files} in {written[0].parent}")
        named = (path for path in written if path.suffix in (".html", ".parquet"))
        yield from (escape_unprintable(str(path)) for path in named)


def texts_of(written: Sequence[Path], names: Sequence[str]) -> str:
    """Return the texts of a report by their file names; warn of unknown names.

    A name also selects its texts on groups of rows: auto_shard.md selects auto_shard_host-a.md.
    """
    texts = {path.name: path for path in written if path.suffix in (".md", ".txt")}
    chosen: list[Path] = []
    for name in names:
        start, dot, suffix = name.rpartition(".")
        group_names = [
            text_name
            for text_name in texts
            if text_name.startswith(f"{start}_") and dot + suffix in text_name
        ]
        selected = [name] if name in texts else group_names
        if not selected:
            warn(f"--show {name}: no such text of this report; it has {', '.join(texts)}")
        chosen += [texts[text_name] for text_name in selected]
    return "\n\n".join(path.read_text(encoding="utf-8").strip() for path in chosen)


def files_of(
    parts: ReportData,
    typed: pd.DataFrame | None,
    environments: Sequence[Facts],
    options: argparse.Namespace,
) -> Iterator[Path]:
    """Yield each file as it is written: the report, then the page and Parquet if requested."""
    folder = folder_for(options.places[0], options.output_dir)
    yield from write_report(parts, folder, options.format, options.figures)
    if options.html:
        make = partial(render.write_page, parts, folder, environments, options.figures)
        page = make_or_leave_out("page", make)
        if page is not None:
            yield page
    if typed is not None:
        yield output.write_parquet(typed, folder)
