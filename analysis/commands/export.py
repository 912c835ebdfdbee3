"""`python -m analysis export`: write our records as files of other systems."""

import argparse
from functools import partial
from pathlib import Path

from analysis.foreign.formats import WRITERS
from analysis.records.derive import usable_processes
from analysis.records.harvest import harvest
from analysis.records.paths import require_there
from analysis.shared.output import folder_for
from analysis.shared.output import write as write_file
from analysis.shared.text import command, complain
from analysis.table.combine import combine
from analysis.table.frames import nothing_found
from benchkit.errors import ConfigError
from benchkit.record.naming import escape_unprintable

warn = partial(complain, "analysis export")


@command("analysis export")
def main(arguments: list[str]) -> int:
    """Write the files of one system and print their paths.

    Returns:
        0; 1 if the system measures nothing of the records; 2 for invalid arguments.
    """
    options = parser().parse_args(arguments)
    require_there(options.places)
    loaded = harvest(options.places, usable_processes())
    for line in loaded.remarks():
        warn(line)
    if not loaded.rows:
        warn(nothing_found(loaded, options.places))
        return 1
    table = combine(loaded.rows)
    texts: dict[str, str] = {}
    try:
        for write in WRITERS[options.system]:
            texts |= write(table)
        folder = folder_for(options.places[0], options.output_dir, options.system)
        written = [write_file(folder, name, text) for name, text in texts.items()]
    except ValueError as error:
        raise ConfigError(error) from None
    if not texts:
        warn(f"nothing that {options.system} measures is in these records")
        return 1
    print(*(escape_unprintable(f"wrote {path}") for path in written), sep="\n")
    return 0


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="benchkit-analysis export",
        description="`benchkit-analysis export`: our records in the columns and units of other "
        "systems, for their scripts. Means and standard deviations are of our samples.",
    )
    result.add_argument(
        "places", metavar="DIR", nargs="+", type=Path, help="folders of records, or record files"
    )
    result.add_argument(
        "--as", dest="system", required=True, choices=tuple(WRITERS),
        help="ddlb: CSV per primitive; cs336: CSV of all-reduce and JSON of transformers; "
        "hetero: CSV of ring attention and of matrix products by compute share",
    )  # fmt: skip
    result.add_argument(
        "--output-dir", metavar="D", type=Path,
        help="where to write (default: report/SYSTEM/ in the first)",
    )  # fmt: skip
    return result
