"""Check that this checkout does what an older one does: the same texts, files and records.

    python -m perf.same OLD_CHECKOUT [--arms] [--only records|analysis] [--keep FOLDER]

**Records**: both measure the same points, the old one twice. Keys, types and values must be equal, but for the values
that differ between the two runs of the old one too, and for what `is_volatile` names.
**Analysis**: both read one copy each of the records of the old one, at the same place, with every command of analysis.
Output, errors, exit code and files must be equal byte for byte once `WORDS` are replaced in those of the old one.

With --arms both also compare two arms, a minute more. --keep keeps all, and uses again what the old one measured there.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.cli import PATIENCE_S, ROOT, Cli, wait_until

WORDS = Path(__file__).with_name("same.txt")
"""Lines of `old -> new`, only words: numbers may not change. Comments start with #."""
MOST_SHOWN, MOST_LETTERS = 6, 100
"""Lines on each difference, and letters of each text, that are printed."""

SUITES = ("collective", "ring_attention", "ring_model", "tp_columnwise", "tp_rowwise", "transformer", "matmul_lut",
          "auto_shard", "pair_matrix", "rank_speed")  # fmt: skip
FEW, TWO = "measure=few", "world_size=2"
REDUCE = ("+suite=allreduce", "-m", "data_size=1KiB,64KiB", FEW)
RUNS = {
    "suites": ("-m", "+suite=" + ",".join(f"smallest_{name}" for name in SUITES), TWO, FEW),
    "compile": ("+suite=smallest_compile", "-m", FEW),
    "repeated": (*REDUCE, "world_size=1,2", "repeat=2"),
    "reused": (*REDUCE, TWO, "ranks=reuse"),
    "failed": ("+suite=faulty", "-m", "fault=build,raise,sigkill,segfault,exit,oom,wrong,skip,none", FEW),
    "slowed": ("+suite=smallest_ring_attention", "-m", TWO, FEW, "hardware.slowdown=2", "measure.alone=always"),
    "profiled": ("+suite=smallest_ring_attention", "-m", TWO, FEW, "profile=true"),
    "agents": (*REDUCE, TWO),
    "timed_out": ("+suite=faulty", "-m", "fault=none,hang,none", "timeout_s=12", FEW),
}
"""The command lines that measure, by the name of the sweep's folder; the last is killed as it hangs, and resumed."""
ARMS = ("compare", "plain", "set:reduce_op=max", "+suite=allreduce", "data_size=1KiB", FEW, "--pairs", "6")

MAKE_RECORDS = """
import sys
from pathlib import Path
from perf.analysis_scaling import write_records
from tests.support import records
place = Path(sys.argv[1])
suites = [*records.LABELS, "collective", "matmul_lut"]
for samples in (12, 800):
    rich = [records.make_rich_record(name, samples) for name in suites]
    records.write_all(place / f"rich_{samples}", rich)
for name, factor in (("before", 1.0), ("after", 1.1)):
    records.write_all(place / name, records.grid() + [records.make_record(seconds=1e-3 * factor)])
    (place / name / "multirun.yaml").touch()
(place / "many").mkdir()
write_records(place / "many", 250, False)
"""
"""Script that writes synthetic records with all fields that analysis reads."""

SAMPLES = ROOT / "tests" / "unit" / "analysis" / "samples"
LOAD = "import analysis; print(analysis.load('suites', 'failed', 'rich_800').to_csv())"
REPORT = ("--format", "svg")
ANALYSES = {
    "report of suites": ("suites", *REPORT, "--figures", "all"),
    "report with page": ("rich_800", *REPORT, "--html"),
    "report of many": ("many", *REPORT, "--parquet", "--compare-at", "1"),
    "report of failures": ("failed", "timed_out", *REPORT),
    "report of repetitions": ("repeated", *REPORT, "--baseline", "world_size=2"),
    "report of all": ("suites", "repeated", "agents", "slowed", "compile", "rich_12", *REPORT, "--split", "host"),
    "texts": ("repeated", "slowed", *REPORT, "--figures", "1", "--show", "analysis.txt,turns.md,speedups.md"),
    "view by columns": ("many", "--columns", "data_size,median_s,busbw_gb_per_s", "--sort", "median_s"),
    "view of groups": ("many", "--group-by", "collective,world_size"),
    "view of rows": ("many", "suites", "--where", "world_size == 2", "--top", "20"),
    "accept": ("accept", "suites"),
    "compare": ("compare", "before", "after", "--fail-on", "5%"),
    "compare measured": ("compare", "agents", "reused"),
    "export ddlb": ("export", "suites", "rich_800", "--as", "ddlb"),
    "export cs336": ("export", "suites", "rich_800", "--as", "cs336"),
    "export hetero": ("export", "suites", "rich_800", "--as", "hetero"),
    "import": ("import", *(str(path) for path in sorted(SAMPLES.glob("*.txt"))), "rich_12", "--ranks", "8"),
    "log": ("log", "rich_12", "--to", "mlflow"),
    "plan": ("plan", "--seq-len", "65536", "--speeds", "1,0.5"),
    "predict": ("predict", "many", "--world-size", "8,64"),
    "profile": ("profile", "profiled"),
    "nothing": ("absent",),
    "help": ("--help",),
}  # fmt: skip
"""Command lines of `python -m analysis` in the folder of records."""
WRITES_NOWHERE = ("view", "plan", "predict", "log", "profile", "nothing", "help", "accept")
MEASURED = [name for name in RUNS if name != "agents"]


CASES_AGAIN = ("alone", "fresh")
"""Keys of a record for cases that were measured again; they have the form of its cases."""


class Difference(NamedTuple):
    """A difference of two JSON values.

    Attributes:
        name: the keys down to it, with [] for any position in a list.
        kind: keys, length, type or value.
    """

    name: str
    kind: str
    old: Any
    new: Any


def differences(old: Any, new: Any, name: str = "") -> Iterator[Difference]:
    if type(old) is not type(new):
        yield Difference(name, "type", old, new)
    elif isinstance(old, dict):
        if list(old) != list(new):
            gone, added = ([key for key in one if key not in other] for one, other in ((old, new), (new, old)))
            yield Difference(name, "keys", gone, added if gone or added else "another order")
        for key in old.keys() & new.keys():
            yield from differences(old[key], new[key], f"{name}.{'cases' if key in CASES_AGAIN else key}")
    elif isinstance(old, list):
        if len(old) != len(new):
            yield Difference(name, "length", len(old), len(new))
        for one, other in zip(old, new, strict=False):
            yield from differences(one, other, f"{name}[]")
    elif old != new:
        yield Difference(name, "value", old, new)


def is_volatile(found: Difference) -> bool:
    """Return whether runs may differ in it: measured seconds, and names of the source itself."""
    names = re.split(r"[.\[\]]+", found.name)
    is_measured = "config" not in names and any(name.endswith("_s") for name in names)
    is_of_source = names[-1].startswith("git_") or names[-1] in ("commit", "traceback")
    return (is_measured and found.kind in ("value", "length")) or (is_of_source and found.kind != "keys")


def command_line(root: Path, folder: Path, lock: Path) -> Cli:
    """Return the command that runs a checkout in a folder, isolated from the rest of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    style = folder.parent / "matplotlibrc"
    style.write_text("svg.hashsalt: same\n")  # otherwise names in a figure are drawn at random
    cli = Cli(folder)
    cli.config = folder.parent / "conf"
    cli.environment |= {
        "PYTHONPATH": str(root), "BENCHKIT_HOST_LOCK": str(lock), "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(folder.parent), "COLUMNS": "400", "SOURCE_DATE_EPOCH": "0", "MATPLOTLIBRC": str(style),
    }  # fmt: skip
    return cli


def measure(root: Path, folder: Path, with_arms: bool) -> dict[str, int]:
    """Run all points by a checkout; return exit codes by sweep."""
    cli = command_line(root, folder, folder.with_suffix(".lock"))
    codes = {}
    for name, arguments in RUNS.items():
        own = (*arguments, f"hydra.sweep.dir={name}")
        if name == "agents":
            agents = cli.agents(2, *own)
            for agent in agents:
                agent.communicate(timeout=PATIENCE_S)
            codes[name] = max(agent.returncode for agent in agents)
            continue
        if name == "timed_out":
            kill_during_second_point(cli, own)
            own = ("--resume", name)
        codes[name] = cli(*own).returncode
    if with_arms:
        arguments = (*ARMS, "--dir", "arms", "--config-dir", str(cli.config))
        codes["arms"] = cli(*arguments, module="benchkit.__main__").returncode
    (folder / "codes.json").write_text(json.dumps(codes))
    return codes


def kill_during_second_point(cli: Cli, arguments: tuple[str, ...]) -> None:
    process = cli.start(*arguments)
    assert wait_until((cli.folder / "timed_out" / "1" / "rank_1.log").exists)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert wait_until(lambda: not cli.processes())


def compare_records(old: Path, place: Path, with_arms: bool) -> bool:
    """Print for each sweep whether its records are the same; return whether all are."""
    jobs = [(old, place / "old"), (ROOT, place / "new"), (old, place / "again")]
    shutil.rmtree(place / "new", ignore_errors=True)
    with ThreadPoolExecutor(len(jobs)) as threads:
        done = [
            threads.submit(measure, root, folder, with_arms and folder.name != "again")
            for root, folder in jobs
            if not (folder / "codes.json").exists()
        ]
        for each in done:
            each.result()
    content = {folder.name: records_in(folder) for _, folder in jobs}
    measured = set()
    for path in content["old"].keys() & content["again"].keys():
        measured |= {found[:2] for found in differences(content["old"][path], content["again"][path])}
    names = [*RUNS, *(["arms"] if with_arms else [])]
    same = [is_same_sweep(name, content["old"], content["new"], measured) for name in names]
    codes = [json.loads((place / name / "codes.json").read_text()) for name in ("old", "new")]
    tell("exit codes", "of all sweeps", [] if codes[0] == codes[1] else [f"{codes[0]} -> {codes[1]}"])
    return all(same) and codes[0] == codes[1]


def records_in(folder: Path) -> dict[str, Any]:
    """Return the content of all JSON files of benchkit below a folder, by relative path."""
    paths = [path for path in sorted(folder.rglob("*.json")) if not path.is_symlink() and "cache" not in path.parts]
    paths = [path for path in paths if "latest" not in path.parts and "trace" not in path.name]
    return {str(path.relative_to(folder)): json.loads(path.read_text()) for path in paths}


def is_same_sweep(name: str, old: dict[str, Any], new: dict[str, Any], measured: set[tuple[str, str]]) -> bool:
    """Print whether the records of a sweep are the same, except for measured values; return it."""
    words = Words.read()
    old, new = ({path: each[path] for path in each if path.split(os.sep)[0] == name} for each in (old, new))
    lines = Counter(f"{path}: not in both" for path in old.keys() ^ new.keys())
    num_fields = 0
    for path in sorted(old.keys() & new.keys()):
        num_fields += count_leaves(old[path])
        for found in differences(old[path], new[path]):
            is_word = found.kind == "value" and isinstance(found.old, str) and words.apply(found.old) == found.new
            if not (is_volatile(found) or found[:2] in measured or is_word):
                lines[f"{found.name.lstrip('.')}: {found.kind}: {shorten(found.old)} -> {shorten(found.new)}"] += 1
    tell(f"records {name}", f"{len(old)} files, {num_fields:,} values", [f"{line} ({n}x)" for line, n in lines.items()])
    return not lines


def count_leaves(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(count_leaves, value)) if isinstance(value, list) else 1


def shorten(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else f"{text[:297]}..."


class Words:
    """The table of words that were renamed."""

    def __init__(self, pairs: dict[str, str]) -> None:
        if wrong := [f"{old} -> {new}" for old, new in pairs.items() if re.search(r"\d", old + new)]:
            sys.exit(f"{WORDS}: {wrong[0]}: words have no digits")
        self.pairs = pairs
        longest_first = sorted(pairs, key=len, reverse=True)
        self._pattern = re.compile("|".join(rf"(?<!\w){re.escape(old)}(?!\w)" for old in longest_first))

    @classmethod
    def read(cls) -> "Words":
        lines = [line.partition("#")[0].strip() for line in WORDS.read_text().splitlines()]
        parts = [line.partition(" -> ") for line in lines if line]
        return cls({old.strip(): new.strip() for old, _, new in parts})

    def apply(self, text: str) -> str:
        return self._pattern.sub(lambda found: self.pairs[found[0]], text) if self.pairs else text

    def same(self, old: str, new: str) -> bool:
        """Return whether texts are equal except for these words; a column is as wide as its longest word."""
        told = self.apply(old)
        return told == new or (bool(self.pairs) and without_padding(told) == without_padding(new))


def without_padding(text: str) -> str:
    return re.sub(r"[-=]{2,}", "--", re.sub(r" {2,}", " ", text))


def mask(text: str, root: Path) -> str:
    """Mask in a text which checkout made it (the search path of a sweep), and when (its progress)."""
    return re.sub(r'"written_at":"[^"]*"', '"written_at":""', text.replace(str(root), "CHECKOUT"))


class Result(NamedTuple):
    """Outcome of a command: its exit code, output and errors, and its files by name."""

    texts: dict[str, str]
    files: dict[str, bytes]


def analyse(root: Path, place: Path, records: Path, with_arms: bool) -> dict[str, Result]:
    """Run every command of a checkout at a place, on a copy of the records."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(records, place, symlinks=True)
    cli = command_line(root, place, place.with_suffix(".lock"))
    jobs: dict[str, tuple[str, list[str]]] = {}
    for name, arguments in ANALYSES.items():
        output = [] if name.startswith(WRITES_NOWHERE) else ["--output-dir", f"out/{name}"]
        jobs[name] = "analysis", [*arguments, *output]
    for name in MEASURED:
        jobs[f"end of {name}"] = "benchkit.__main__", ["--resume", name, "--force"]
        jobs[f"status of {name}"] = "benchkit.__main__", ["status", name]
    if with_arms:
        jobs["end of arms"] = "benchkit.__main__", ["compare", "--resume", "arms"]
    with ThreadPoolExecutor(2) as threads:
        done = dict(zip(jobs, threads.map(lambda job: result_of(cli, *job), jobs.values()), strict=True))
    load = subprocess.run(
        [sys.executable, "-c", LOAD], cwd=place, env=cli.environment, capture_output=True, text=True, check=False
    )
    done["analysis.load"] = texts_of(load)
    before = files_in(records)
    files = {path: content for path, content in files_in(place).items() if before.get(path) != content}
    results = {}
    for name, texts in done.items():
        written = [path for path in files if path.startswith(f"out/{name}/")]
        results[name] = Result(texts, {path: files.pop(path) for path in written})
    of_sweeps = {path: mask(content.decode(), root) for path, content in files.items()}
    return {**results, "files of sweeps": Result(of_sweeps, {})}


def result_of(cli: Cli, module: str, arguments: list[str]) -> dict[str, str]:
    return texts_of(cli(*arguments, module=module))


def texts_of(done: "subprocess.CompletedProcess[str]") -> dict[str, str]:
    return {"stdout": done.stdout, "stderr": done.stderr, "exit code": str(done.returncode)}


def files_in(folder: Path) -> dict[str, bytes]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and "cache" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def compare_analysis(old: Path, place: Path, with_arms: bool) -> bool:
    """Print for each command whether both checkouts do the same; return whether all do."""
    records = place / "records"
    if not records.exists():
        shutil.copytree(place / "old", records, symlinks=True, ignore=shutil.ignore_patterns("cache", "codes.json"))
        command = [sys.executable, "-c", MAKE_RECORDS, str(records)]
        subprocess.run(command, check=True, cwd=old, env=os.environ | {"PYTHONPATH": str(old)})
    results = {}
    for name, root in (("old", old), ("new", ROOT)):
        results[name] = analyse(root, place / "there", records, with_arms)
        shutil.rmtree(place / f"analysis_{name}", ignore_errors=True)
        (place / "there").rename(place / f"analysis_{name}")
    words = Words.read()
    same = [is_same_result(name, old, results["new"][name], words) for name, old in results["old"].items()]
    return all(same)


def is_same_result(name: str, old: Result, new: Result, words: Words) -> bool:
    """Print whether a command did the same; return it."""
    renamed = {words.apply(path): content for path, content in old.files.items()}
    lines = [f"{path}: not in both" for path in sorted(renamed.keys() ^ new.files.keys())]
    pairs = {each: (old.texts.get(each, ""), new.texts.get(each, "")) for each in {**old.texts, **new.texts}}
    for path in renamed.keys() & new.files.keys():
        before, now = renamed[path], new.files[path]
        try:
            pairs[path] = before.decode(), now.decode()
        except UnicodeDecodeError:
            if before != now:
                lines.append(f"{path}: other bytes")
    for each, (before, now) in pairs.items():
        if not words.same(before, now):
            lines.append(f"{each}: {first_difference(words.apply(before), now)}")
    tell(name, f"exit code {old.texts.get('exit code', '')}, {len(old.files)} files", lines)
    return not lines


def first_difference(old: str, new: str) -> str:
    """Return the number of the first line that differs, and both lines from shortly before the difference."""
    pairs = enumerate(zip_longest(old.splitlines(), new.splitlines()), 1)
    number, ends = next(((number, pair) for number, pair in pairs if pair[0] != pair[1]), (0, ("", "")))
    letters = enumerate(zip_longest(*(end or "" for end in ends)))
    at = max(0, next((place for place, (one, other) in letters if one != other), 0) - 30)
    shown = (repr(None if end is None else end[at : at + MOST_LETTERS]) for end in ends)
    return f"line {number}: {' -> '.join(shown)}"


def tell(name: str, what: str, lines: list[str]) -> None:
    print(f"{'differs' if lines else 'same':8} {name} ({what})")
    for line in lines[:MOST_SHOWN]:
        print(f"             {line}")
    if len(lines) > MOST_SHOWN:
        print(f"             and {len(lines) - MOST_SHOWN} more")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--arms", action="store_true", help="also a comparison of two arms")
    parser.add_argument("--only", choices=("records", "analysis"), help="one half")
    parser.add_argument("--keep", type=Path, help="a folder that keeps all")
    given = parser.parse_args()
    old = given.old.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        place = (given.keep or Path(temporary)).resolve()
        is_same = []
        if not (place / "conf").exists():
            shutil.copytree(old / "tests" / "conf", place / "conf")
        if given.only != "analysis":
            is_same.append(compare_records(old, place, given.arms))
        elif not (place / "old" / "codes.json").exists():
            measure(old, place / "old", given.arms)
        if given.only != "records":
            is_same.append(compare_analysis(old, place, given.arms))
    sys.exit(0 if all(is_same) else 1)


if __name__ == "__main__":
    main()
