"""Decorates and tears other tools' results, and checks that `analysis import` reads true rows or says what it lacks.

python -m perf.foreign_fuzz [FILES]

The truth is what the samples of the tests hold. A decorated file must give all of its rows; of a torn one each row must
be true, and something must be said unless it ends with a whole line. Prints failures; exits with 1 if there is one.
"""

import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from analysis.commands.import_results import read
from analysis.foreign.timings import Reading, Timing

SAMPLES = Path(__file__).parents[1] / "tests" / "unit" / "analysis" / "samples"
RANKS = 4
TAGS: tuple[Callable[[int], str], ...] = (
    lambda rank: f"{rank}: ",
    lambda rank: f"[1,{rank}]<stdout>:",
    lambda rank: f"[1,{rank}]<stdout>: ",
    lambda rank: f"[{rank}] ",
    lambda rank: f"[rank{rank}]: ",
    lambda rank: f"[default{rank}]:",
    lambda rank: f"[pod/worker-{rank}/nccl] ",
    lambda rank: f"(worker pid={4000 + rank}, ip=10.0.0.{rank}) ",
    lambda rank: f"worker-{rank}  | ",
    lambda rank: "",
)
TIMES = (
    "2025-03-04T05:06:07.1234567Z ",
    "2025-03-04 05:06:07,123 ",
    "[05:06:07] ",
    "2025-03-04T05:06:07.123456789+01:00 stdout F ",
    "",
)
NOISE = (
    "node1:42:57 [0] NCCL INFO Channel 00/02 : 0 1",
    "WARNING: Open MPI accepted a TCP connection",
    "",
)
COLOURS = ("", "\x1b[32m", "\x1b[1;31m")


def decorated(text: str, rng: random.Random) -> str:
    """The text as a launcher or a collector hands it on, with lines of another rank in between."""
    tag, time, colour = rng.choice(TAGS), rng.choice(TIMES), rng.choice(COLOURS)
    lines = []
    for line in text.splitlines():
        if rng.random() < 0.2 and tag(0):
            lines.append(time + tag(1) + rng.choice(NOISE))
        end = "\x1b[0m" if colour else ""
        lines.append(colour + time + tag(0) + line + end)
    return "\n".join(lines) + "\n"


LINE_END = re.compile(r"(\x1b\[0m)?\n")


def torn(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text))]


def key(row: Timing) -> str:
    return str(asdict(row) | {"file": ""})


def faults(name: str, found: Reading, truth: list[str], is_torn: bool, ends_whole: bool) -> Iterator[str]:
    rows = sorted(map(key, found.rows))
    left = list(truth)
    for row in rows:
        if row not in left:
            yield f"{name}: a row that is not in the sample: {row:.300}"
            return
        left.remove(row)
    if left and not found.passed_over and not ends_whole:
        yield f"{name}: {len(left)} of {len(truth)} rows are missing, and nothing is said"
    if left and not is_torn:
        yield f"{name}: {len(left)} of {len(truth)} rows are missing: {found.passed_over}"


def fuzz(num_files: int, seed: int = 0) -> Iterator[str]:
    """Yields a line for each fault."""
    rng = random.Random(seed)
    samples = sorted(SAMPLES.iterdir())
    truths = {path.name: sorted(map(key, read(path, RANKS).rows)) for path in samples}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(num_files):
            sample = samples[number % len(samples)]
            text, is_torn = sample.read_text(), rng.random() < 0.5
            if rng.random() < 0.8:
                text = decorated(text, rng)
            whole = text
            if is_torn:
                text = torn(text, rng)
            ends_whole = text.endswith("\n") or bool(LINE_END.match(whole, len(text)))
            path = Path(folder) / sample.name
            path.write_text(text)
            name = f"file {number} of seed {seed} ({sample.name})"
            try:
                found = read(path, RANKS)
            except Exception as error:
                yield f"{name}: {type(error).__name__}: {error}"
                continue
            yield from faults(name, found, truths[sample.name], is_torn, ends_whole)


def main() -> int:
    num_files = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    found = list(fuzz(num_files))
    print(*found, sep="\n", end="\n" * bool(found))
    print(f"{num_files} files, {len(found)} faults")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
