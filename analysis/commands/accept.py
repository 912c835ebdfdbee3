"""`python -m analysis accept DIR...`: judge whether ranks, links and nodes are like their peers."""

import argparse
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import yaml

from analysis.acceptance.verdict import SUITES, check, judge
from analysis.records.harvest import Harvest, harvest, plan_of
from analysis.records.paths import one_line, require_there
from analysis.records.places import places_of
from analysis.records.suite_rows import group_by_layout
from analysis.shared.text import command, complain
from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.naming import escape_unprintable
from benchkit.record.record import Record
from benchkit.statistics.faults import FaultLimits

EXAMPLE = "allowed is YAML such as `leaf1: [node1, node2]`"
warn = partial(complain, "analysis accept")


def switches_in(path: Path) -> dict[str, str]:
    """Read the switch of each host from YAML with the hosts of each switch.

    Raises:
        ConfigError: the file has another form, or a host twice.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        table = msgspec.convert(content, dict[str | int, list[str | int]])
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"--switches {path}: {EXAMPLE} ({str(error).splitlines()[0]})") from None
    counts = Counter(str(host) for hosts in table.values() for host in hosts)
    if twice := [host for host, count in counts.items() if count > 1]:
        raise ConfigError(f"--switches {path}: {', '.join(twice)}: allowed is one switch per host")
    return {str(host): str(name) for name, hosts in table.items() for host in hosts}


def switches_of(records: Sequence[Record], path: Path | None) -> dict[str, str]:
    """Return the switch of each host, from a file that may describe a larger cluster.

    Raises:
        ConfigError: the file lacks a host of the records.
    """
    if path is None:
        return {}
    switches = switches_in(path)
    hosts = {place.host for record in records for place in places_of(record)}
    if missing := sorted(hosts - switches.keys()):
        line = f"{path}: no switch for {', '.join(missing)}"
        if unknown := sorted(switches.keys() - hosts):
            line += f"; no record has {', '.join(unknown)}"
        raise ConfigError(f"--switches {line}")
    return switches


@command("analysis accept")
def main(arguments: list[str]) -> int:
    """Print a verdict on the records of some folders.

    Returns:
        0 if all are alike; 1 for a finding, a failure, or nothing to judge; 2 for wrong arguments.
    """
    options = parser().parse_args(arguments)
    require_there(options.places)
    if not 0 < options.tolerance < 100:
        wrong = f"--tolerance {options.tolerance:g}"
        raise ConfigError(f"{wrong}: allowed is a share > 0, such as 0.1")
    loaded = harvest(options.places)
    for line in loaded.remarks():
        warn(line)
    records, flaws = read_records({str(row["path"]) for row in loaded.rows})
    switches = switches_of(records, options.switches)
    limits = FaultLimits(tolerance=options.tolerance)
    verdicts = [judge(same_ranks, limits, switches) for _, same_ranks in group_by_layout(records)]
    judged = [verdict for verdict in verdicts if verdict is not None]
    for verdict in judged:
        print(*map(one_line, verdict.lines(options.tolerance)), sep="\n", end="\n\n")
    failed = [*flaws, *(one_line(line) for record in records for line in failures(record))]
    failed += map(one_line, missing_runs(options.places, loaded))
    print(*(f"- FAILED: {line}" for line in failed), sep="\n", end="\n" * bool(failed))
    if not judged:
        remedy = "" if failed else "; run `python -m benchkit sweep=acceptance`"
        where = escape_unprintable(", ".join(map(str, options.places)))
        warn(f"nothing to judge at or below {where}{remedy}")
    all_alike = judged and all(verdict.is_alike for verdict in judged)
    return int(bool(failed) or not all_alike)


def read_records(paths: set[str]) -> tuple[list[Record], list[str]]:
    """Return the records of an acceptance in order of time, and why others cannot be judged."""
    records, flaws = [], []
    for path in sorted(paths):
        try:
            record = files.read(Path(path))
        except ValueError as error:  # it was removed since, or its name was escaped
            flaws.append(one_line(error))
            continue
        if record.suite in SUITES:
            try:
                check(record)
                records.append(record)
            except ValueError as error:
                flaws.append(one_line(f"{path}: {error}"))
    return sorted(records, key=lambda record: record.started_at), flaws


def failures(record: Record) -> list[str]:
    """Return lines on cases of a record that failed or gave wrong results.

    A suite whose cases are all unavailable lacks a prerequisite, such as a second rank.
    """
    if record.cases and record.status == "unavailable":
        return []
    bad = [case for case in record.cases if case.status in ("invalid", "oom")]
    lines = [f"{record.title} {case.labels}: {case.reason}" for case in bad]
    if record.status != "ok" and not bad:
        reason = (record.error.message if record.error else "") or record.status
        lines.append(f"{record.title}: {reason.splitlines()[0]}")
    return lines


def missing_runs(places: Sequence[Path], loaded: Harvest) -> list[str]:
    """Return lines on the planned runs of an acceptance that have no record."""
    suites = {str(row["path"]): row["suite"] for row in loaded.rows}
    runs = plan_of(places, suites).runs
    of_acceptance = {run.sweep for run in runs if suites.get(run.path) in SUITES}
    return [
        f"{run.path}: planned, without a record: {run.name}"
        for run in runs
        if run.is_missing and run.sweep in of_acceptance
    ]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="benchkit-analysis accept",
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
