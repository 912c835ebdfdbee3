"""The command line of `python -m benchkit compare`."""

import contextlib
import re
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.compare.arms import ALLOWED, is_arm, refuse_key
from benchkit.errors import ConfigError
from benchkit.sweep.resume import Parser, is_override

STATISTICS = ("p25", "median", "mean")
FEWEST_PAIRS, MOST_PAIRS = 6, 10_000
HELP = """python -m benchkit compare ARM ARM [ARM …] [flags] +suite=… [any overrides of a sweep]

Compares arms by pairs of fresh runs in random order; the first arm is the baseline.

Arms
  plain                 as it is
  env:NAME=VALUE,…      with environment variables
  set:key=value,…       with overrides
  venv:PATH             by another virtual environment
  tree:PATH             in another folder, whose modules come first
  git:REV               in a checkout of a commit

Flags
  --pairs N|auto        pairs of runs; auto: until all points are answered (default)
  --max-pairs N         the limit of auto (default 50)
  --fail-on 5%          the least change that matters (default 5%)
  --statistic NAME      of a run: p25 (default), median or mean
  --seed N              decides the order of runs and the seeds of pairs (default: random)
  --floor FILE          compare_result.json of a comparison of identical code: the noise floor
  --dir FOLDER          for all that is written (default outputs/compare_<time>)
  --resume FOLDER       goes on with a comparison that was cut off

Exit code: 0 nothing is worse; 1 a point is worse: slower, failed or no longer measured; 3 too
little to tell: a point is unclear, or none is compared; 2 the command line is wrong, or a file or a
host cannot be used; 128 + N ended by signal N (130: Ctrl-C)."""


@dataclass(frozen=True)
class Options:
    """How arms are compared.

    Attributes:
        pairs: number of pairs; None for as many as it takes.
        max_pairs: the limit of the latter.
        fail_on: the least change that matters, as a share.
        statistic: of the times of a run; one of STATISTICS.
    """

    pairs: int | None
    max_pairs: int
    fail_on: float
    statistic: str


@dataclass(frozen=True)
class Request:
    """What was typed; see HELP.

    Attributes:
        arms: as they were typed.
        overrides: of all runs.
        options: how arms are compared.
        seed: None for a random one.
        floor: file with the noise floor.
        folder: of a fresh comparison.
    """

    arms: list[str]
    overrides: list[str]
    options: Options
    seed: int | None
    floor: Path | None
    folder: Path | None


def parse(arguments: Sequence[str]) -> Request | Path:
    """Parses the words after `compare`.

    Returns:
        What to compare, or the folder of a comparison to go on with.

    Raises:
        ConfigError: the words make no sense; the message says what is allowed.
    """
    parser = flag_parser()
    flags, others = parser.parse_known_args([word for word in arguments if word != "--"])
    if flags.resume:
        if flags != parser.parse_args(["--resume", str(flags.resume)]) or others:
            raise ConfigError("--resume FOLDER: takes arms, flags and overrides from there")
        return Path(flags.resume)
    arms = [word for word in others if is_arm(word)]
    overrides = [word for word in others if not is_arm(word)]
    refuse_wrong_words(overrides)
    for word in overrides:
        refuse_key(word)
    if len(arms) < 2:
        raise ConfigError(f"compare takes two arms or more, got {len(arms)}; allowed are {ALLOWED}")
    options = Options(flags.pairs, flags.max_pairs, flags.fail_on, flags.statistic)
    return Request(arms, overrides, options, flags.seed, flags.floor, flags.dir)


def flag_parser() -> Parser:
    """Returns the parser of the flags; their values are checked by it."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--pairs", type=pairs_or_auto)
    parser.add_argument("--max-pairs", type=pairs, default=50)
    parser.add_argument("--fail-on", type=share, default=0.05)
    parser.add_argument("--statistic", choices=STATISTICS, default=STATISTICS[0])
    parser.add_argument("--seed", type=int)
    for flag in ("--floor", "--dir", "--resume"):
        parser.add_argument(flag, type=Path)
    return parser


def refuse_wrong_words(overrides: Sequence[str]) -> None:
    """Raises ConfigError for a word that is no override, no flag and no flag's value."""
    before = ""
    for word in overrides:
        is_value = before.startswith("-") and before not in ("-m", "--multirun")
        if not (is_override(word) or word.startswith("-") or is_value):
            raise ConfigError(f"{word}: neither an arm nor an override; arms are {ALLOWED}")
        before = word


def pairs(text: str) -> int:
    """Returns a number of pairs that has intervals."""
    found = int(text) if re.fullmatch(r"[0-9]{1,5}", text) else 0
    if not FEWEST_PAIRS <= found <= MOST_PAIRS:
        allowed = f"allowed are {FEWEST_PAIRS} (fewer have no interval) to {MOST_PAIRS}"
        raise ArgumentTypeError(f"{text}: {allowed}")
    return found


def pairs_or_auto(text: str) -> int | None:
    return None if text == "auto" else pairs(text)


def share(text: str) -> float:
    """Returns "5%" or "0.05" as 0.05."""
    found = 0.0
    with contextlib.suppress(ValueError):
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0.001 <= found <= 1:
        raise ArgumentTypeError(f"{text}: allowed are 0.1% to 100%")
    return found
