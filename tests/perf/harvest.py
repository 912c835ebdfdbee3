"""How long 1,000 records take to become a table, imports aside.

python -m tests.perf.harvest
"""

import json
import tempfile
import time
from pathlib import Path

from analysis.records.harvest import harvest
from analysis.table import combine
from analysis.terminal import as_text

from tests.support.records import make_record, write_all


def main() -> None:
    for samples in (20, 200):
        records = [
            make_record(float(size), ranks, samples=samples) for size in range(1, 251) for ranks in (2, 4, 8, 16)
        ]
        with tempfile.TemporaryDirectory() as folder:
            place = write_all(Path(folder), records)
            for _ in range(2):  # the first round warms the page cache
                began = time.perf_counter()
                found = harvest([place])
                read = time.perf_counter()
                table = combine(found.rows)
                tabulated = time.perf_counter()
                as_text(table)
                printed = time.perf_counter()
        mean_bytes = sum(len(json.dumps(record)) for record in records) / len(records)
        print(
            f"{len(table)} records of {samples} samples per rank ({mean_bytes / 1e3:.1f} KB each): "
            f"read {read - began:.3f} s, table {tabulated - read:.3f} s, text {printed - tabulated:.3f} s; "
            f"in all {printed - began:.3f} s"
        )


if __name__ == "__main__":
    main()
