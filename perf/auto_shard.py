"""Compare the planner with GT's rule, GT's dispatcher and the limit of the machine: paired, one job per workload.

python -m perf.auto_shard [--devices 1,2] [--records DIR]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchkit.record import files
from benchkit.record.record import CaseRecord
from benchkit.statistics.summary import paired_speedup
from tests.support.cli import ROOT

SCOPES = ("resident", "end_to_end")


def run(folder: Path, devices: str) -> None:
    """Run the suite over the workloads of a CPU."""
    command = [
        sys.executable,
        "-m",
        "benchkit",
        "+suite=auto_shard",
        f"devices=[{devices}]",
        f"hydra.sweep.dir={folder}",
    ]
    subprocess.run(command, cwd=folder.parent, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def lines(folder: Path) -> Iterator[str]:
    """Yield, per workload and scope, the speedup of the planner over each of the others, on the most devices."""
    for path in sorted(folder.glob("*/record.json"), key=lambda path: int(path.parent.name)):
        record = files.read(path)
        most = max(record.config["devices"])
        measured = [case for case in record.cases if case.status == "ok"]
        cases = {" ".join(map(str, case.labels.values())): case for case in measured}
        for scope in SCOPES:
            auto = cases[f"auto {most} {scope}"]
            compared = [said(name, cases[f"{name} {most} {scope}"], auto) for name in ("axis0", "dispatcher")]
            efficiency = paired_speedup(cases[f"none 1 {scope}"].samples, auto.samples)[0] / most
            independent = cases.get(f"independent {most} {scope}")
            if independent:
                limit = paired_speedup(cases[f"none 1 {scope}"].samples, independent.samples)[0]
                compared.append(f"efficiency {efficiency:.3f}, of the limit {efficiency / limit:.3f}")
            yield f"{record.config['workload']:<24} {scope:<10} {', '.join(compared)}; {auto.details['plan']}"


def said(name: str, other: CaseRecord, auto: CaseRecord) -> str:
    """Format "over axis0 1.21 [1.18, 1.25]"."""
    ratio, low, high, *_ = paired_speedup(other.samples, auto.samples)
    interval = f" [{low:.3f}, {high:.3f}]" if low is not None else ""
    return f"over {name} {ratio:.3f}{interval}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", default="1,2")
    parser.add_argument("--records", type=Path, help="a folder of such a run, instead of another run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not options.records:
            run(Path(folder) / "records", options.devices)
        print("\n".join(lines(options.records or Path(folder) / "records")))


if __name__ == "__main__":
    main()
