"""What analysis takes for 100, 1,000 and 10,000 records: seconds, CPU seconds and peak memory of each stage.

A record has two cases of 200 samples on 4, 8 or 12 ranks, 8 on average, with the size and the layout of one that an
all-reduce leaves. Sizes, dtypes, operations and repetitions vary. Each line is a process of its own, imports aside:

- table: finds and reads the records, combines their rows, and prints them, as at the end of a sweep.
- again: the same on the unchanged folder.
- report: all that `python -m analysis FOLDER` does, on the unchanged folder.

python -m perf.analysis_scaling [--records 100 1000 10000] [--seeds] [--files] [--beside CHECKOUT]
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tests.support.cli import ROOT
from tests.support.records import make_record

SAMPLES, RANKS, REPETITIONS, SIZES = 200, (4, 8, 12), 5, 10
TIMINGS = {"latency": (1, "last_arrival_to_last_exit"), "back_to_back": (32, "slowest_rank")}
DTYPES, OPERATIONS = ("float32", "float64", "bfloat16", "float16"), ("sum", "avg", "min", "max")


def points(count: int, own_seeds: bool) -> Iterator[dict[str, Any]]:
    """What is measured: of few points the sizes and the ranks first, of many also dtypes, operations and seeds."""
    for number in range(count):
        if own_seeds:
            yield {"data_size": 1.0, "world_size": 8, "repetition": 0, "seed": number}
            continue
        line, repetition = divmod(number // SIZES, REPETITIONS)
        line, rank = divmod(line, len(RANKS))
        line, dtype = divmod(line, len(DTYPES))
        seed, operation = divmod(line, len(OPERATIONS))
        yield {
            "data_size": 4.0 ** (number % SIZES - 5), "world_size": RANKS[rank], "repetition": repetition,
            "dtype": DTYPES[dtype], "reduce_op": OPERATIONS[operation], "seed": seed,
        }  # fmt: skip


def record(number: int, point: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """One record: times are noisy, some calls spike, and ranks start apart; all is rounded to nanoseconds."""
    size, ranks, repetition = point["data_size"], point["world_size"], point.pop("repetition")
    typical_s = (20e-6 * np.log2(ranks) + size * 2**20 / 2e9) * random.lognormal(0, 0.05)
    made = make_record(size, ranks, 1e-3, samples=2)
    made["config"] |= {"suite": "collective", "collective": "all_reduce", **point}
    [case] = made["cases"]
    made["cases"] = [
        case | samples(typical_s, ranks, random)
        | {"labels": {"timing": name}, "calls_per_sample": calls, "estimator": estimator}
        for name, (calls, estimator) in TIMINGS.items()
    ]  # fmt: skip
    started = f"2026-01-{1 + number // 86400:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
    return made | {
        "suite": "collective", "title": "all_reduce", "repetition": repetition, "point_id": f"{number:012x}",
        "started_at": f"{started}.000+00:00", "phases_s": {"spawn": 2.2, "init": 0.1, "measure": 1.0, "total": 3.5},
    }  # fmt: skip


def samples(typical_s: float, ranks: int, random: np.random.Generator) -> dict[str, Any]:
    """What was measured of a case."""
    shape = (ranks, SAMPLES)
    times = typical_s * random.lognormal(0, 0.1, SAMPLES) * random.lognormal(0, 0.03, shape)
    times[:, random.random(SAMPLES) < 0.01] *= 8
    starts = random.exponential(typical_s / 5, shape)
    counters = ("steal_s", "throttled_s", "pressure_s", "host_busy_s", "own_busy_s", "lowest_ghz", "highest_ghz")
    return {
        "samples_s": np.round(times, 9).tolist(),
        "start_offsets_s": np.round(starts - starts.min(axis=0), 9).tolist(),
        "warmup_s": np.round(times[:, :5], 9).tolist(), "blocks": [1] * SAMPLES,
        "disturbance": {name: [0.0] * ranks for name in counters}, "elapsed_s": float(times.max(axis=0).sum()),
    }  # fmt: skip


def write_records(folder: Path, count: int, own_seeds: bool) -> float:
    """A sweep's folder; returns the mean size of a record in bytes."""
    random, num_bytes = np.random.default_rng(0), 0
    (folder / "multirun.yaml").touch()
    for number, point in enumerate(points(count, own_seeds)):
        content = msgspec.json.encode(record(number, point, random))
        num_bytes += len(content)
        (folder / str(number)).mkdir()
        (folder / str(number) / "record.json").write_bytes(content)
    return num_bytes / count


class Stages:
    """Seconds and CPU seconds of each stage, those of child processes included."""

    def __init__(self) -> None:
        self.taken: dict[str, tuple[float, float]] = {}
        self.began = now()

    def end(self, name: str) -> None:
        ended = now()
        self.taken[name] = (ended[0] - self.began[0], ended[1] - self.began[1])
        self.began = ended


def now() -> tuple[float, float]:
    used = os.times()
    return time.perf_counter(), used.user + used.system + used.children_user + used.children_system


def peak_mb() -> float:
    """The most memory that this process held at one time, in 10^6 bytes."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


def analyse(folder: Path, with_report: bool) -> None:
    """In a process of its own: prints what each stage took."""
    from analysis.records.harvest import harvest, without_collection
    from analysis.repetitions import over_repetitions
    from analysis.report.report import write_report
    from analysis.table import combine
    from analysis.terminal import as_text

    idle_mb = peak_mb()
    stages = Stages()
    with without_collection():
        found = harvest([folder])
        stages.end("read")
        table = combine(found.rows)
        gc.freeze()
        stages.end("combine")
    as_text(over_repetitions(table))
    stages.end("text")
    if with_report:
        found.rows.clear()
        for path in write_report(table, folder.parent / "report", None, found.ranks):
            stages.end(path.name)
    print(json.dumps({"stages": stages.taken, "rows": len(table), "idle_mb": idle_mb, "peak_mb": peak_mb()}))


def child(checkout: Path, folder: Path, *more: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "perf.analysis_scaling", "--folder", str(folder), *more]
    environment = os.environ | {"XDG_CACHE_HOME": str(folder.parent / "cache"), "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=environment, cwd=checkout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def show(count: int, name: str, found: dict[str, Any]) -> None:
    """A line of the table."""
    stages = found["stages"]
    seconds, cpu_s = (sum(each[i] for each in stages.values()) for i in (0, 1))
    parts = [f"{stages[part][0]:.2f}" for part in ("read", "combine", "text")]
    rest = sum(each[0] for part, each in stages.items()) - sum(stages[part][0] for part in ("read", "combine", "text"))
    cells = [f"{count:,}", name, *parts, f"{rest:.2f}" if rest else "", f"{seconds:.2f}", f"{cpu_s:.2f}"]
    print("| " + " | ".join([*cells, f"{found['peak_mb']:.0f}"]) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--files", action="store_true", help="also what each file of the report takes")
    parser.add_argument("--seeds", action="store_true", help="each record has a seed of its own, and all else alike")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another version, timed in turns")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--report", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        return analyse(options.folder, options.report)
    print("| records | | read [s] | combine [s] | text [s] | report [s] | all [s] | all, CPU [s] | peak [MB] |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for count in options.records:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "sweep"
            folder.mkdir()
            size = write_records(folder, count, options.seeds)
            for name, more in (("table", ()), ("again", ()), ("report", ("--report",))):
                if options.beside:
                    show(count, f"{name} ({options.beside.name})", child(options.beside, folder, *more))
                found = child(ROOT, folder, *more)
                show(count, name, found)
        if options.files:
            print(f"{size / 1e3:.0f} KB per record, {found['rows']} rows, {found['idle_mb']:.0f} MB before reading")
            for name, (seconds, cpu_s) in found["stages"].items():
                print(f"  {name:<40}{seconds:8.2f} s {cpu_s:8.2f} s CPU")


if __name__ == "__main__":
    main()
