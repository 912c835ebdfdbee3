"""`python -m analysis accept DIR...` tells whether every rank, link and node is like its peers."""

import argparse
from functools import partial
from pathlib import Path

import yaml

from analysis.records.harvest import harvest
from analysis.records.of_suite import by_layout
from analysis.records.paths import missing, printable
from analysis.suites.acceptance.verdict import judge
from analysis.suites.pair_matrix import matrix
from analysis.suites.rank_speed import speeds
from analysis.text import complain
from benchkit.record import files
from benchkit.record.record import Record
from benchkit.statistics.faults.cells import Limits

warn = partial(complain, "analysis accept")


def main(arguments: list[str]) -> int:
    """Print one verdict on the records of some folders.

    Returns:
        0 where all are alike; 1 where something is out of line, failed, or there is nothing to
        judge; 2 for invalid arguments.
    """
    options = parser().parse_args(arguments)
    if why := missing(options.places) or unreadable(options.switches):
        warn(why)
        return 2
    if not 0 < options.tolerance < 100:
        warn(f"--tolerance {options.tolerance:g}: allowed is a share > 0, such as 0.1")
        return 2
    found = harvest(options.places)
    for line in found.remarks():
        warn(line)
    records = records_of({str(row["path"]) for row in found.rows})
    verdicts = [
        judge(own, Limits(tolerance=options.tolerance), switches_in(options.switches))
        for _, own in by_layout(records)
    ]
    judged = [verdict for verdict in verdicts if verdict is not None]
    if not judged:
        where = printable(", ".join(map(str, options.places)))
        warn(f"nothing to judge at or below {where}; run `python -m benchkit sweep=acceptance`")
        return 1
    for verdict in judged:
        print(*verdict.lines(options.tolerance), sep="\n", end="\n\n")
    failed = [line for record in records for line in failures(record)]
    print(*failed, sep="\n", end="\n" * bool(failed))
    return int(bool(failed) or not all(verdict.is_alike for verdict in judged))


def records_of(paths: set[str]) -> list[Record]:
    """Return the records of an acceptance's suites, in order of time."""
    records = [files.read(Path(path)) for path in paths]
    kept = [each for each in records if each.suite in (matrix.SUITE, speeds.SUITE)]
    return sorted(kept, key=lambda record: record.started_at)


def failures(record: Record) -> list[str]:
    """Say what was not measured, or measured wrong."""
    bad = [case for case in record.cases if case.status in ("invalid", "oom")]
    lines = [f"- FAILED: {record.title} {case.labels}: {case.reason}" for case in bad]
    if record.status != "ok" and not bad:
        reason = record.error.message if record.error else record.status
        lines.append(f"- FAILED: {record.title}: {reason.splitlines()[0]}")
    return lines


def switches_in(path: Path | None) -> dict[str, str]:
    """Return the switch of each host, from YAML with the hosts of each switch."""
    if path is None:
        return {}
    switches = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {str(host): str(name) for name, hosts in switches.items() for host in hosts}


def unreadable(path: Path | None) -> str:
    """Return why a file of switches cannot be used; "" where it can."""
    try:
        switches_in(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, TypeError) as error:
        first = str(error).splitlines()[0]
        return f"--switches {path}: allowed is YAML such as `leaf1: [node1, node2]` ({first})"
    return ""


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m analysis accept",
        description="One verdict on records of pair_matrix and rank_speed (`sweep=acceptance`): "
        "which rank, link, node or switch is slower than its peers, or that all are alike.",
    )
    result.add_argument("places", metavar="DIR", nargs="+", type=Path, help="folders of records")
    result.add_argument(
        "--tolerance",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="smallest slowdown that matters (default: 0.1, which is 10 %%)",
    )
    result.add_argument(
        "--switches",
        type=Path,
        metavar="FILE",
        help="YAML with the hosts at each switch: `leaf1: [node1, node2]`",
    )
    return result
