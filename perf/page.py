"""Measure the size of the page of a report, and the time to make and to open it.

python -m perf.page [FOLDER]     keeps the pages in a folder
"""

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from analysis.page.render import write_page
from analysis.records.harvest import harvest
from analysis.report.parts import ReportData, with_ids
from analysis.table.combine import combine
from tests.support.browser import browser
from tests.support.records import make_record, write_all

SAMPLES = 2000
KINDS = ("float32", "bfloat16", "float16", "float64")


def record(size: float, ranks: int, dtype: str) -> dict[str, Any]:
    """Return a point with irregular samples: regular ones would compress and draw better than real ones."""
    made = make_record(size, ranks, 1e-4 * size * ranks, samples=SAMPLES)
    draw = random.Random(f"{size} {ranks} {dtype}")
    [case] = made["cases"]
    case["samples_s"] = [[1e-4 * size * ranks * draw.lognormvariate(0, 0.3) for _ in range(SAMPLES)]] * ranks
    made["config"] |= {"dtype": dtype}
    return made | {"point_id": f"{size} {ranks} {dtype}"}


def records(count: int) -> list[dict[str, Any]]:
    """Return a number of points over sizes, ranks and types."""
    num_sizes = max(1, count // (4 * len(KINDS)))
    points = [
        (float(size), ranks, dtype) for size in range(1, num_sizes + 2) for ranks in (2, 4, 8, 16) for dtype in KINDS
    ]
    return [record(*point) for point in points[:count]]


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        for count in (10, 100, 1000):
            folder = write_all(place / str(count), records(count))
            began = time.process_time()
            found = harvest([folder])
            table = combine(found.rows)
            read = time.process_time()
            page = write_page(ReportData(with_ids(table), None, found.ranks), folder, found.environments)
            made = time.process_time()
            print(
                f"{count} points of {SAMPLES} samples: page {page.stat().st_size / 1e6:.2f} MB; CPU seconds: "
                f"{read - began:.1f} to read the records, {made - read:.1f} to make the page",
                end="",
                flush=True,
            )
            with browser() as chromium:
                tab = chromium.new_page()
                started = time.monotonic()
                tab.goto(page.as_uri())
                tab.wait_for_selector("html[data-ready]", timeout=300_000)
                print(f"; opened with all figures after {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
