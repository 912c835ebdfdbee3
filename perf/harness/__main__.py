"""Whether the ranks share a clock, and whether benchkit changes what it times: against a bare loop, in the same ranks.

python -m perf.harness [--backend gloo] [--ranks 2] [--seconds 5]
"""

import argparse
import os
import tempfile
from pathlib import Path

import msgspec
import numpy as np
from benchkit.api.registry import EXTRA_SUITES
from benchkit.selftest.runs import SelftestOptions, contains, ratio, sweep
from benchkit.statistics.rank_tests import SignedRank, log_ratios

from perf.harness import SECONDS, Report, clock

BOTH = ("+suite=allreduce,matmul_lut", "hardware.slowdown=1")


def probe(setting: SelftestOptions) -> list[Report]:
    """What ranks find of their clocks and of the harness, on one case of two suites."""
    others = os.environ.get(EXTRA_SUITES)
    suites = ",".join(filter(None, [others, "perf.harness.probe"]))
    records = sweep(setting, "probe", BOTH, {EXTRA_SUITES: suites, SECONDS: str(setting.seconds)})
    return [msgspec.convert(case.details, Report) for record in records for case in record.cases]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    reading = clock.read_pairs()
    print(f"clock: resolution {1e9 * reading.resolution_s:.3g} ns, a pair of readings {1e9 * reading.pair_s:.3g} ns")
    with tempfile.TemporaryDirectory() as folder:
        reports = probe(SelftestOptions(options.backend, options.ranks, options.seconds, Path(folder)))
    low = max(report.offset_low_s for report in reports)
    high = min(report.offset_high_s for report in reports)
    agree = "agree" if low <= 0 <= high else "DISAGREE"
    print(f"the ranks' clocks {agree}: their offset is within {1e6 * low:.3g} to {1e6 * high:.3g} µs")
    for report in reports:
        test = SignedRank(log_ratios(np.array(report.bare_s), np.array(report.benchkit_s)))
        verdict = "" if contains(test, 0.0) else "  CHANGES TIMES"
        print(f"{report.what}: {ratio(test)} times as long as by a bare loop, {test.num_values} pairs{verdict}")


if __name__ == "__main__":
    main()
