"""Decorate, encode and tear other tools' results, and check that `analysis import` reads true rows or refuses.

python -m perf.foreign_fuzz [FILES] [SEED]

The truth is in the samples of the tests: single, two in one log, and of two concurrent ranks. A decorated file must
give all of its rows; of a torn one each row must be true or incomplete, and missing rows must be reported, unless the
file was truncated between lines or lacks its beginning.
Print faults and counts; exit with 1 for a fault.
"""

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path

from analysis.commands.import_results import read
from analysis.foreign.timings import Reading, Timing
from analysis.foreign.undecorated import UNSEEN

SAMPLES = Path(__file__).parents[1] / "tests" / "unit" / "analysis" / "samples"
RANKS = 8
NCCL, OSU = "nccl_tests_all_reduce.txt", "osu_allreduce.txt"
START = datetime(2026, 11, 30, 23, 59, 50, 120000, timezone.utc)
TAGS: tuple[Callable[[int], str], ...] = (
    lambda rank: f"{rank}: ",
    lambda rank: f" {rank}: ",
    lambda rank: f"[1,{rank}]<stdout>:",
    lambda rank: f"[1,{rank}]<stdout>: ",
    lambda rank: f"[prterun-node1-99@1,{rank}]<stdout>: ",
    lambda rank: f"[{rank}] ",
    lambda rank: f"[rank{rank}]: ",
    lambda rank: f"[default{rank}]:",
    lambda rank: f"[trainer{rank}]:",
    lambda rank: f"[pod/worker-{rank}/nccl] ",
    lambda rank: f"worker-{rank} nccl ",
    lambda rank: f"(worker pid={4000 + rank}, ip=10.0.0.{rank}) ",
    lambda rank: f"(head, rank={rank}, pid={4000 + rank}) ",
    lambda rank: f"worker-{rank}  | ",
    lambda rank: f"worker-{rank} | ",
    lambda rank: f"node{rank}: ",
    lambda rank: f"10.0.0.{rank}: ",
    lambda rank: f"fd00::{rank}: ",
    lambda rank: f"node{rank} train[{700 + rank}]: ",
    lambda rank: f"INFO:rank{rank}:",
    lambda rank: f"| INFO     | __main__:run:{40 + rank} - ",
    lambda rank: "    ",
    lambda rank: "##[group]",
)
TIMES: tuple[Callable[[datetime], str], ...] = (
    lambda at: f"{at:%Y-%m-%dT%H:%M:%S.%f}7Z ",
    lambda at: f"{at.isoformat().rstrip('0')} ",  # a zone, and a fraction of any length
    lambda at: f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03} ",
    lambda at: f"{at:%Y/%m/%d %H:%M:%S} ",
    lambda at: f"[{at:%H:%M:%S}] ",
    lambda at: f"[{at:%Y-%m-%d %H:%M:%S}] ",
    lambda at: f"{at:%b} {at.day:2} {at:%H:%M:%S} ",
    lambda at: f"{at:%a %b} {at.day:2} {at:%H:%M:%S %Y} ",
    lambda at: f"{at:%d/%b/%Y:%H:%M:%S} +0000 ",
    lambda at: f"I{at:%m%d %H:%M:%S.%f}    1234 log.go:45] ",
    lambda at: f"{at.timestamp():.6f} ",
    lambda at: f"{at.timestamp() * 1000:.0f} ",
    lambda at: f"[{(at - START).total_seconds() + 9:12.6f}] ",
    lambda at: f"{at:%I:%M:%S %p} ",
    lambda at: f"{at:%Y-%m-%dT%H:%M:%S.%f}789+01:00 stdout F ",
    lambda at: f"{at:%Y-%m-%dT%H:%M:%S.%f}Z 00O ",
)
COLLECTORS: tuple[Callable[[str, int, datetime], object], ...] = (
    lambda line, rank, at: {"log": line + "\n", "stream": "stdout", "time": at.isoformat(), "attrs": {"rank": rank}},
    lambda line, rank, at: {"__REALTIME_TIMESTAMP": f"{at.timestamp():.0f}000000", "_PID": rank, "MESSAGE": line},
    lambda line, rank, at: {"_HOSTNAME": f"n{rank}", "MESSAGE": list(line.encode())},
    lambda line, rank, at: {"date": at.timestamp(), "log": line, "kubernetes": {"pod_name": f"worker-{rank}"}},
    lambda line, rank, at: {"line": line, "timestamp": at.isoformat(), "labels": {"pod": f"worker-{rank}"}},
    lambda line, rank, at: {"msg": line, "level": "info", "host": f"node{rank}", "time": at.isoformat()},
    lambda line, rank, at: {"textPayload": line, "resource": {"labels": {"pod_name": f"worker-{rank}"}}},
)
NOISE = (
    "node1:42:57 [0] NCCL INFO Channel 00/02 : 0 1",
    "WARNING: Open MPI accepted a TCP connection",
    "",
)
COLOURS = ("", "", "\x1b[32m", "\x1b[1;31m", "\x1b[38;5;9m", "\x1b[0K")
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-be")


class Decoration:
    """What a file adds to the output of a tool, drawn at random: layers of prefixes, colours and a collector."""

    def __init__(self, rng: random.Random) -> None:
        self._layers = [
            rng.choice([(None, rng.choice(TIMES)), (rng.choice(TAGS), None)])
            for _ in range(rng.choice([0, 1, 1, 2, 3]))
        ]
        self._colour = rng.choice(COLOURS)
        self._collector = rng.choice(COLLECTORS) if rng.random() < 0.3 else None
        tells_ranks = [tag for tag, _ in self._layers if tag and tag(0) != tag(1)]
        self.tells_ranks = bool(tells_ranks or self._collector)
        self._seconds = 0.0

    def line(self, line: str, rank: int = 0) -> str:
        self._seconds += 0.4
        at = START + timedelta(seconds=self._seconds)
        prefix = "".join(tag(rank) if tag else time(at) if time else "" for tag, time in self._layers)
        line = self._colour + prefix + line + ("\x1b[0m" if self._colour else "")
        return line if self._collector is None else json.dumps(self._collector(line, rank, at))


def torn_within(line: str, other: str, rng: random.Random) -> list[str]:
    """Return a line with another rank's line written into it; the rest has no prefix."""
    at = rng.randrange(len(line)) if line else 0
    return [line[:at] + other, line[at:]]


def interleaved(texts: Sequence[str], rng: random.Random) -> Iterator[tuple[int, str]]:
    """Interleave the lines of several ranks at random, each in its order."""
    left = [text.splitlines() for text in texts]
    while any(left):
        rank = rng.choice([rank for rank, lines in enumerate(left) if lines])
        yield rank, left[rank].pop(0)


def drawn(texts: Sequence[str], rng: random.Random) -> tuple[str, bool, bool]:
    """Return the decorated text of one rank or two, whether it is torn, and whether that may be unreported."""
    decoration = Decoration(rng)
    is_torn = len(texts) > 1 and not decoration.tells_ranks
    tears = rng.random() < 0.15 and not is_torn
    lines = []
    for rank, line in interleaved(texts, rng):
        if decoration.tells_ranks and rng.random() < 0.2:
            lines.append(decoration.line(rng.choice(NOISE), rank=2))
        if tears and rng.random() < 0.05:
            is_torn = True
            tail = decoration.line("node1:42:57 [0] NCCL INFO Channel 01", rank=2)
            first, rest = torn_within(line, tail, rng)
            lines += [decoration.line(first, rank), rest]
        else:
            lines.append(decoration.line(line, rank))
    text = rng.choice(["\n", "\n", "\r\n"]).join([*lines, ""])
    if is_torn or rng.random() < 0.5:
        return text, is_torn, False
    at = rng.randrange(len(text))
    if rng.random() < 0.2 and len(texts) == 1:
        return text[at:], True, True  # a rotated log, of which nobody knows what it had
    cut = text[at:].partition("\n")[0]
    return text[:at], True, UNSEEN.sub("", text[:at]).endswith("\n") or not UNSEEN.sub("", cut).strip()


def key(row: Timing) -> str:
    return str(asdict(row) | {"file": ""})


def faults(found: Reading, truth: list[Timing], is_torn: bool, may_be_untold: bool) -> Iterator[str]:
    left = list(truth)
    said = bool(found.skipped)
    for row in sorted(found.rows, key=num_unknown):
        same = next((true for true in left if is_less(row, true)), None)
        if same is None:
            yield f"a row that is not in the sample, or twice: {key(row):.300}"
            return
        left.remove(same)
    missing = len(left)
    if missing and not (said or may_be_untold):
        yield f"{missing} of {len(truth)} rows are missing, and nothing is said"
    if missing and not is_torn:
        yield f"{missing} of {len(truth)} rows are missing: {found.skipped}"


def ranks_of(path: Path) -> int | None:
    """Return the number of ranks that the user gives if the output lacks it."""
    return RANKS if path.name.startswith(("osu", "both")) else None


def num_unknown(row: Timing) -> int:
    return list(asdict(row).values()).count(None)


def is_less(row: Timing, true: Timing) -> bool:
    """Return whether a row equals the true one, or lacks some of its values."""
    lacking = {name: None for name, value in asdict(row).items() if value is None}
    return key(row) == str(asdict(true) | lacking | {"file": ""})


def samples() -> Iterator[tuple[str, str, list[Timing]]]:
    """Yield the name, the text and the rows of each sample, and of logs of two tests."""
    found = {path.name: (path.read_text(), read(path, ranks_of(path)).rows) for path in sorted(SAMPLES.iterdir())}
    for name, (text, rows) in found.items():
        yield name, text, rows
    nccl, osu = found[NCCL], found[OSU]
    strange = nccl[0].replace("all_reduce_perf", "all_reduce_bias_perf")
    yield "stranger.log", nccl[0] + strange, nccl[1]
    yield "strange_first.log", strange + nccl[0], nccl[1]
    yield "both.log", nccl[0] + osu[0], nccl[1] + osu[1]
    bandwidth = osu[0].replace("Allreduce Latency", "Bandwidth").replace("Avg Latency(us)", "Bandwidth (MB/s)")
    yield "osu.log", osu[0] + bandwidth, osu[1]
    with tempfile.TemporaryDirectory() as folder:
        gathers = nccl[0].replace("all_reduce_perf", "all_gather_perf").replace("sum", "none")
        bcasts = osu[0].replace("Allreduce", "Broadcast")
        for name, first, second in (("two.log", nccl, gathers), ("osu_two.log", osu, bcasts)):
            (Path(folder) / name).write_text(second)
            yield name, first[0] + second, first[1] + read(Path(folder) / name, ranks_of(Path(name))).rows


def fuzz(num_files: int, seed: int, outcomes: Counter[str]) -> Iterator[str]:
    """Yield a line per fault, and count the outcomes of files."""
    rng = random.Random(seed)
    known = list(samples())
    pairable = [name for name, *_ in known if not name.endswith((".json", "cloudai.csv"))]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(num_files):
            name, whole, truth = known[number % len(known)]
            texts = [whole]
            if name in pairable and rng.random() < 0.1:
                _, other, more = rng.choice([sample for sample in known if sample[0] in pairable])
                name, texts, truth = "both_ranks.log", [whole, other], truth + more
            text, is_torn, may_be_untold = drawn(texts, rng)
            content = text.encode(encoding := rng.choice(ENCODINGS))
            if encoding == "utf-16-be":
                content = b"\xfe\xff" + content
            path = Path(folder) / name
            path.write_bytes(content)
            try:
                found = read(path, ranks_of(path))
                told = list(faults(found, truth, is_torn, may_be_untold))
            except Exception as error:
                told = [f"{type(error).__name__}: {error}"]
            yield from (f"file {number} of seed {seed} ({name}, {encoding}): {fault}" for fault in told)
            all_there = len(found.rows) == len(truth)
            how = "fault" if told else "all rows" if all_there else "some rows" if found.rows else "refused"
            outcomes[how] += 1


def main() -> int:
    num_files, seed = (*map(int, sys.argv[1:]), *(5000, 0)[len(sys.argv) - 1 :])
    outcomes: Counter[str] = Counter()
    found = list(fuzz(num_files, seed, outcomes))
    print(*found, sep="\n", end="\n" * bool(found))
    print(f"{num_files} files, {len(found)} faults:", dict(outcomes))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
