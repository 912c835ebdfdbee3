"""`python -m analysis log DIR --to mlflow` hands the points of a sweep to an experiment tracker."""

import argparse
from functools import partial
from pathlib import Path

from analysis.commands.trackers import TRACKERS, Tracker, TrackerError
from analysis.commands.tracking import SweepLog, runs_of
from analysis.fresh_speedup import with_fresh_speedups
from analysis.output import FOLDER, folder_for
from analysis.records.harvest import Harvest, harvest
from analysis.records.paths import missing
from analysis.records.workers import usable_processes
from analysis.report.report import write_report
from analysis.table import combine
from analysis.text import complain
from benchkit.record import files
from benchkit.record.naming import printable

warn = partial(complain, "analysis log")


def main(arguments: list[str]) -> int:
    """Log one run per point, and one with the report.

    Returns:
        0; 1 where there is no record; 2 for invalid arguments, a missing library, and where the
        tracker refuses.
    """
    options = parser().parse_args(arguments)
    folder: Path = options.folder
    if why := missing([folder]) or ("" if folder.is_dir() else f"{folder}: allowed is a folder"):
        warn(why)
        return 2
    found = harvest([folder], usable_processes())
    for line in found.remarks():
        warn(line)
    if not found.rows:
        warn(f"no readable record.json at or below {printable(str(folder))}")
        return 1
    try:
        with TRACKERS[options.to](options.name) as tracker:
            print(log(folder, found, tracker))
    except (TrackerError, OSError, ValueError) as error:
        warn(error)
        return 2
    return 0


def log(folder: Path, found: Harvest, tracker: Tracker) -> str:
    """Log the points of a sweep that the tracker does not have yet; return a line on them.

    The report goes with a run of its own: copies of it in each run would be many files.
    """
    table = with_fresh_speedups(combine(found.rows))
    has_report = (folder / FOLDER).is_dir()
    report = folder_for(folder, None)
    if not has_report:
        list(write_report(table, report, None, found.ranks))
    for path in report.rglob("*"):
        if not path.is_dir() or path.is_symlink():  # The tracker would be handed what it leads to.
            files.require_regular(path)
    runs = runs_of(table)
    sweep = SweepLog.of(folder, runs)
    logged = [run for run in runs if tracker.log_run(run, sweep)]
    tracker.log_report(report, sweep)
    old = f"; {len(runs) - len(logged)} were there" if len(logged) < len(runs) else ""
    return f"logged {len(logged)} runs and the report{old}: {tracker.place}"


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m analysis log",
        description="Hands one run per point to MLflow or Weights & Biases: its settings, the "
        "figures of its cases and its record; and one run with the report. Where to is for the "
        "library's own variables to say, such as MLFLOW_TRACKING_URI and WANDB_MODE.",
    )
    result.add_argument("folder", metavar="DIR", type=Path, help="folder of records")
    result.add_argument("--to", choices=TRACKERS, required=True, help="the tracker")
    result.add_argument(
        "--name",
        default="benchkit",
        help="of MLflow's experiment, or of the project (benchkit)",
    )
    return result
