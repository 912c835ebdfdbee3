"""Measure CPU seconds and peak memory of `python -m analysis FOLDER` for 1,000, 3,000 and 10,000 records.

A record is a collective's, with two cases of 60 samples on 2 to 16 ranks; each tenth one is a job of ring attention,
which times three strategies and two components of one interleaved. All settings are distinct, then all are measured
again. Each line is a process, from its start to its end:

- first: a view of the rows (`--top 10`) of a folder without a cache.
- table: the same on the unchanged folder.
- report: the report of the unchanged folder.
- page: the same with `--html`.

python -m perf.analysis_scaling [--records 1000 3000 10000] [--seeds] [--parts] [--beside CHECKOUT]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count as count_up
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from tests.support.records import make_record

SAMPLES, EACH_JOB = 60, 10
RANKS, BACKENDS, DTYPES = (2, 4, 8, 16), ("gloo", "ucc"), ("float32", "bfloat16")
FACTORS = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda ranks: 1.0,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
}
"""Bus factors of collectives."""
SIZES = tuple(2.0**power for power in range(-10, 11))
TIMINGS = {"latency": (1, "last_arrival_to_last_exit"), "back_to_back": (8, "slowest_rank")}
STRATEGIES = {"even": 1.0, "zigzag": 0.8, "balanced": 0.7}
"""Strategies of ring attention: time over that of the first one, the baseline."""
COMPONENTS = {"compute_only": 0.6, "comm_only": 0.3}
LENGTHS = tuple(2**power for power in range(10, 18))
AGENT = {
    "host": "here", "cpu": "AMD EPYC", "available_cores": 16, "gpus": [], "torch": "2.13.0+cpu",
    "git_commit": "0123456789abcdef", "kernel": "6.1", "load_average": [0.1, 0.1, 0.1],
}  # fmt: skip


def records(count: int, own_seeds: bool) -> Iterator[dict[str, Any]]:
    """Yield a number of records; with `own_seeds`, of one collective and size, each with another seed."""
    random, of_job = np.random.default_rng(0), settings_of(RANKS[:3], LENGTHS, (64, 128), (False, True))
    of_collective = settings_of(FACTORS, RANKS, BACKENDS, DTYPES, SIZES)
    for number in range(count):
        if own_seeds:
            made = collective(("all_reduce", 8, "gloo", "float32", 1.0), random, seed=number)
            repetition = 0
        elif number % EACH_JOB == EACH_JOB - 1:
            settings, repetition = next(of_job)
            made = job(settings, random)
        else:
            settings, repetition = next(of_collective)
            made = collective(settings, random)
        started = f"2026-01-{1 + number // 86400:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
        yield made | {
            "repetition": repetition, "point_id": f"{number:012x}", "started_at": f"{started}.000+00:00",
            "agents": [AGENT], "environment": AGENT, "cores_per_rank": 16 / made["world_size"],
            "phases_s": {"spawn": 2.2, "init": 0.1, "measure": 1.0, "total": 3.5},
        }  # fmt: skip


def settings_of(*values: Any) -> Iterator[tuple[Any, int]]:
    """Yield all combinations of values, then all of them again, each with its repetition."""
    for repetition in count_up():
        for settings in product(*values):
            yield settings, repetition


def collective(settings: tuple[Any, ...], random: np.random.Generator, seed: int = 0) -> dict[str, Any]:
    name, ranks, backend, dtype, size = settings
    made = make_record(size, ranks, 1e-3, backend=backend, samples=2)
    made["config"] |= {"suite": "collective", "collective": name, "dtype": dtype, "seed": seed}
    [case] = made["cases"]
    typical_s = (20e-6 * np.log2(ranks) + size * 2**20 / 2e9) * random.lognormal(0, 0.05)
    made["cases"] = [
        case | samples(typical_s * random.lognormal(0, 0.02), ranks, random)
        | {"labels": {"timing": name_of_timing}, "calls_per_sample": calls, "estimator": estimator,
           "bus_factor": FACTORS[name](ranks)}
        for name_of_timing, (calls, estimator) in TIMINGS.items()
    ]  # fmt: skip
    return made | {"suite": "collective", "title": name}


def job(settings: tuple[Any, ...], random: np.random.Generator) -> dict[str, Any]:
    """Return strategies of ring attention that are interleaved, and the components of the last one."""
    ranks, length, head_dim, causal = settings
    made = make_record(1.0, ranks, 1e-3, samples=2)
    for name in ("data_size", "reduce_op"):
        del made["config"][name]
    own = {"batch_size": 1, "heads": 8, "seq_len": length, "head_dim": head_dim, "causal": causal, "backward": False}
    made["config"] |= {"suite": "ring_attention", **own, "slowdown": 1}
    [case] = made["cases"]
    typical_s = 1e-9 * length * head_dim * ranks * random.lognormal(0, 0.05)
    made["cases"] = [
        case | samples(typical_s * times, ranks, random)
        | {"labels": {"strategy": name}, "baseline": None if name == "even" else 0, "payload_bytes": None,
           "bus_factor": None, "is_component": name in COMPONENTS}
        for name, times in (STRATEGIES | COMPONENTS).items()
    ]  # fmt: skip
    made["cases"][len(STRATEGIES) - 1]["components"] = {"computation": 3, "communication": 4}
    for component in made["cases"][len(STRATEGIES) :]:
        component["baseline"] = None
    return made | {"suite": "ring_attention", "title": "ring_attention"}


def samples(typical_s: float, ranks: int, random: np.random.Generator) -> dict[str, Any]:
    """Draw the samples of a case: times are noisy, some calls spike, and ranks start apart."""
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


def write_records(folder: Path, count: int, own_seeds: bool) -> int:
    """Write a sweep's folder; return the size of all records in bytes."""
    num_bytes = 0
    (folder / "multirun.yaml").touch()
    for number, record in enumerate(records(count, own_seeds)):
        content = msgspec.json.encode(record)
        num_bytes += len(content)
        (folder / str(number)).mkdir()
        (folder / str(number) / "record.json").write_bytes(content)
    return num_bytes


def cpu_s() -> float:
    """Return the CPU seconds of this process from its start, with those of its children."""
    return sum(os.times()[:4])


def peak_mb() -> float:
    """Return the peak memory of this process, in 10^6 bytes."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024 / 1e6


def analyse(arguments: list[str]) -> None:
    """Print, in a separate process, what a command line of analysis took, up to each file that it wrote."""
    from analysis import cli
    from benchkit.record import files

    parts: dict[str, float] = {}
    write_whole, text_of = files.write_atomically, cli.text_of

    def end(name: str) -> None:
        parts[name] = parts.get(name, 0.0) + cpu_s() - sum(parts.values())

    def having_read(*given: Any, **more: Any) -> Any:
        end("read")
        return text_of(*given, **more)

    def written(path: Path, *given: Any, **more: Any) -> None:
        write_whole(path, *given, **more)
        if path.suffix in SUFFIXES:  # derived figures of records are written before
            end(path.name)

    files.write_atomically, cli.text_of = written, having_read
    with open(os.devnull, "w") as nowhere:
        stdout, sys.stdout = sys.stdout, nowhere
        code = cli.main(arguments)
        sys.stdout = stdout
    end("shown")
    print(json.dumps({"code": code, "parts": parts, "cpu_s": cpu_s(), "peak_mb": peak_mb()}))


SUFFIXES = {".csv": "CSV", ".md": "texts", ".txt": "texts", ".png": "figures", ".html": "page"}
"""Kind under which the files of a report are counted, by suffix."""
MODES = {"first": ("--top", "10"), "table": ("--top", "10"), "report": (), "page": ("--html",)}


def child(checkout: Path, folder: Path, *more: str) -> dict[str, Any]:
    """Run this program on the analysis of a checkout."""
    where = folder.parent / checkout.name
    output = [] if "--top" in more else ["--output-dir", str(where / "report")]
    command = [sys.executable, __file__, "--analyse", str(folder), *output, *more]
    environment = os.environ | {"XDG_CACHE_HOME": str(where), "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=environment, cwd=checkout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def show(count: int, name: str, found: dict[str, Any], table: dict[str, Any], with_parts: bool) -> None:
    """Print a line of the table; below it each part that took at least a hundredth of a second."""
    beyond, times = found["cpu_s"] - table["cpu_s"], found["peak_mb"] / table["peak_mb"]
    more = [f"{beyond:.1f}", f"{found['peak_mb']:.0f}", f"{times:.2f}"]
    print("| " + " | ".join([f"{count:,}", name, f"{found['cpu_s']:.1f}", *more]) + " |", flush=True)
    if not with_parts:
        return
    kinds: dict[str, float] = {}
    for part, seconds in found["parts"].items():
        kind = SUFFIXES.get(Path(part).suffix, part)
        kinds[kind] = kinds.get(kind, 0.0) + seconds
    for part, seconds in {**kinds, **found["parts"]}.items():
        if seconds >= 0.01:
            print(f"    {seconds:8.2f} s  {part}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[1000, 3000, 10000])
    parser.add_argument("--parts", action="store_true", help="also what each kind of file, and each file, takes")
    parser.add_argument("--seeds", action="store_true", help="each record has a seed of its own, and all else alike")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another version, run in turns")
    options = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    checkouts = [options.beside.resolve(), root] if options.beside else [root]
    print("| records | | CPU [s] | beyond the table [s] | peak [MB] | of the table's |")
    print("|---|---|---|---|---|---|", flush=True)
    for count in options.records:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "sweep"
            folder.mkdir()
            size = write_records(folder, count, options.seeds)
            tables: dict[Path, dict[str, Any]] = {}
            for name, more in MODES.items():
                for checkout in checkouts:
                    found = child(checkout, folder, *more)
                    tables[checkout] = found if name == "table" else tables.get(checkout, found)
                    label = f"{name} ({checkout.name})" if options.beside else name
                    show(count, label, found, tables[checkout], options.parts)
        print(f"{count:,} records of {size / count / 1e3:.0f} KB: {size / 1e6:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--analyse"]:
        analyse(sys.argv[2:])
    else:
        main()
