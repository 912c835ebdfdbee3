"""Check random command lines: each is accepted, or refused in one line; a check runs and writes nothing.

    python -m perf.command_lines [--lines 1000] [--processes 60] [--seed 0]

Lines are drawn from all keys, groups and options, with plausible and with absurd values. They go through the parser and
through Hydra in this process, as `compare` checks its line; some also through `python -m benchkit … --dry-run`.
"""

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import yaml
from benchkit.config.folders import config_folder
from benchkit.config.help_pages import options_in
from benchkit.errors import ConfigError
from benchkit.sweep.check import check
from tests.support.cli import ROOT

VALUES = [
    *("0", "1", "2", "-1", "3.5", "1e3", "1e999", "nan", "inf", "-inf", "0x10", "1_000", "true", "null", "auto", "???"),
    *("{}", "[]", "[1,2]", "[1,2", "]", "{a:1}", "{a:", "'q", '"', "1,2,3", "1,,2", ",", "a=b", "a\\b", "~", "@", "#"),
    *("$", "${", "${nope}", "${oc.env:HOME}", "${oc.env:NOPE}", "glob(*)", "glob(z*)", "range(1,5)", "range(5,1)"),
    *("range(1,inf)", "range(1,5,0)", "choice(1,2)", "choice()", "interval(0,1)", "shuffle(1,2)", "sort(3,1)"),
    *("int(1.5)", "str(x)", "tag(a,1)", "größe", "😀", "/etc/passwd", "../x", "a/b", "4B", "1KiB", "16MiB", "1GiB"),
    *("8-1G", "1-8", "1e400", str(2**63), "cpu", "cuda", "gloo", "nccl", "float32", "bfloat16", "[8B,64KiB]"),
    *("[[1],[2]]", "matmul_8x8x8", "mlp_8x8x8", "", " ", "a b", "9" * 400, "x" * 5000, "-", "--", "1 2", "\t"),
    "\u202e",
]
FLAGS = [
    *("-m", "--multirun", "--dry-run", "--help", "-h", "--cfg", "--package", "--resume", "--info", "--version", "-c"),
    *("--config-dir", "--config-name", "--hydra-help", "--retry", "--run", "--job", "hydra.mode=RUN"),
    *("hydra.sweep.dir=", "hydra.sweeper.params=x", "hydra.launcher.x=1", "hydra.job.name=a", "hydra/launcher=x"),
    *("launcher=slurm", "list", "status", "compare", "import-config"),
]
PREFIXES = ["", "", "", "", "", "+", "++", "~", "-", "--", "hydra."]
EVENTS = {"subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec", "os.mkdir", "os.rename", "os.remove"}
"""Audit events forbidden in a check, as is opening a file for writing."""
LISTS = "choose a suite"
"""Start of the only refusal of several lines: it lists the suites."""
ALLOWED = (0, 2)
LONGEST_S = 60


def keys_of(content: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of a YAML file."""
    for name, value in content.items() if isinstance(content, dict) else ():
        key = f"{prefix}{str(name).split('@')[0]}"
        yield key
        yield from keys_of(value, f"{key}.")


def vocabulary() -> tuple[list[str], dict[str, list[str]]]:
    """Return all keys, and the options of each group."""
    groups = {group: [path.stem for path in paths] for group, paths in options_in([config_folder()]).items()}
    keys = {key for path in config_folder().rglob("*.yaml") for key in keys_of(yaml.safe_load(path.read_text()))}
    return sorted(keys - {"defaults"}), groups


def line(chance: random.Random, keys: list[str], groups: dict[str, list[str]]) -> list[str]:
    words = []
    if chance.random() < 0.8:
        words.append(f"+suite={chance.choice(groups['suite'])}")
    for _ in range(chance.randrange(5)):
        kind = chance.random()
        if kind < 0.1:
            words.append(chance.choice(FLAGS))
        elif kind < 0.3:
            group = chance.choice(list(groups))
            words.append(f"{chance.choice(PREFIXES)}{group}={chance.choice([*groups[group], *VALUES])}")
        elif kind < 0.95:
            words.append(f"{chance.choice(PREFIXES)}{chance.choice(keys)}={chance.choice(VALUES)}")
        else:
            words.append(chance.choice(VALUES))
    chance.shuffle(words)
    return words


class Watched:
    """Side effects of a check: started processes, written files."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.is_on = False
        sys.addaudithook(self.note)

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if self.is_on and (event in EVENTS or writes):
            self.done.append(f"{event} {str(arguments[:2])[:100]}")


def expire(number: int, frame: Any) -> None:
    raise TimeoutError(f"no end within {LONGEST_S} s")


def checked(words: list[str], watched: Watched) -> tuple[str, list[str]]:
    """Return the outcome of a line in this process, and what is wrong with it."""
    watched.done, watched.is_on = [], True
    told = StringIO()
    signal.alarm(LONGEST_S)
    try:
        with redirect_stdout(told), redirect_stderr(told):
            check(words)
        how, wrong = "understood", []
    except ConfigError as error:
        one_line = len(str(error).splitlines()) == 1 or str(error).startswith(LISTS)
        how, wrong = "refused", [] if one_line else [f"several lines: {error}"]
    except SystemExit as error:
        how, wrong = f"exit {error.code}", [] if error.code in ALLOWED else [told.getvalue()[-300:]]
    except BaseException as error:
        how, wrong = "raised", [f"{type(error).__name__}: {str(error)[:200]}"]
    finally:
        signal.alarm(0)
        watched.is_on = False
    return how, [*wrong, *["a traceback"] * ("Traceback" in told.getvalue()), *watched.done]


def ran(words: list[str], folder: Path) -> tuple[str, list[str]]:
    """Return the outcome of a line as a command, and what is wrong with it."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchkit", *words, "--dry-run"], cwd=folder, text=True, errors="replace",
            capture_output=True, timeout=LONGEST_S, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hang", [f"no end within {LONGEST_S} s"]
    wrong = ["a traceback"] * ("Traceback" in done.stdout + done.stderr)
    wrong += [f"exit code {done.returncode}"] * (done.returncode not in ALLOWED)
    wrong += [f"wrote {path}" for path in folder.rglob("*")]
    wrong += [f"refused in several lines: {done.stderr[-300:]}"] * (
        done.returncode == 2 and len(done.stderr.strip().splitlines()) > 1 and LISTS not in done.stderr
    )
    return f"exit code {done.returncode}", wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, (keys, groups), watched = random.Random(options.seed), vocabulary(), Watched()
    signal.signal(signal.SIGALRM, expire)
    ends, faults = Counter[str](), 0
    lines = [line(chance, keys, groups) for _ in range(options.lines)]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for number, words in enumerate([*lines, *chance.sample(lines, options.processes)]):
            is_process = number >= len(lines)
            how, wrong = ran(words, Path(folder)) if is_process else checked(words, watched)
            ends[f"{'process' if is_process else 'check'}: {how}"] += 1
            if wrong:
                faults += 1
                print(f"{shlex.join(words)[:300]}\n  {how}: {'; '.join(wrong)[:600]}", flush=True)
    for how, count in sorted(ends.items()):
        print(f"{how:28} {count:5}")
    print(f"{faults} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
