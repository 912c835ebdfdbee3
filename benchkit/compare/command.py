"""`python -m benchkit compare`: its command line, and its plan, compare.json."""

import contextlib
import datetime
import hashlib
import os
import random
import re
import uuid
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from benchkit.compare import RESULT_FILE
from benchkit.compare.arms import ALLOWED, Arm, is_arm, mask_arm, parse_arm, refuse_key
from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.record import Amount, ComparisonRun, Seed, Version, decode
from benchkit.secrets import has_secret, mask_word, mask_words, restore_secrets
from benchkit.statistics.design import Round, order_of_runs
from benchkit.sweep.resume import Parser, is_override, require_text
from launch import trust

STATISTICS = ("p25", "median", "mean")
FEWEST_PAIRS, MOST_PAIRS = 6, 10_000
LEAST_CHANGE = 0.001
Pairs = Annotated[int, Meta(ge=FEWEST_PAIRS, le=MOST_PAIRS)]
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
class CompareOptions:
    """How arms are compared: in `pairs`, or (None) up to `max_pairs`; `fail_on` is a share."""

    pairs: Pairs | None
    max_pairs: Pairs
    fail_on: Annotated[float, Meta(ge=LEAST_CHANGE, le=1)]
    statistic: str


@dataclass(frozen=True)
class CompareRequest:
    """A parsed command line, see HELP; `seed` is None for a random one; `folder` is a new one."""

    arms: list[str]
    overrides: list[str]
    options: CompareOptions
    seed: int | None
    floor: Path | None
    folder: Path | None


@dataclass(frozen=True)
class ResumedComparison:
    """A comparison to resume; `secrets` are the words with values that its plan lacks."""

    folder: Path
    secrets: list[str]


def parse(arguments: Sequence[str]) -> CompareRequest | ResumedComparison:
    """Parse the words after `compare`; raise ConfigError for wrong ones."""
    require_text(arguments)
    parser = flag_parser()
    flags, others = parser.parse_known_args([word for word in arguments if word != "--"])
    if flags.resume:
        has_flags = flags != parser.parse_args(["--resume", str(flags.resume)])
        if has_flags or not all(has_secret(word, show_of(word)) for word in others):
            raise ConfigError("--resume FOLDER: takes arms, flags and overrides from there")
        return ResumedComparison(flags.resume, others)
    arms = [word for word in others if is_arm(word)]
    overrides = [word for word in others if not is_arm(word)]
    refuse_wrong_words(overrides)
    for word in overrides:
        refuse_key(word)
    if len(arms) < 2:
        raise ConfigError(f"compare takes two arms or more, got {len(arms)}; allowed are {ALLOWED}")
    texts = [mask_arm(arm) for arm in dict.fromkeys(arms)]
    if alike := [text for text in texts if texts.count(text) > 1]:
        raise ConfigError(f"{alike[0]}: allowed are arms that differ by more than a secret")
    options = CompareOptions(flags.pairs, flags.max_pairs, flags.fail_on, flags.statistic)
    return CompareRequest(arms, overrides, options, flags.seed, flags.floor, flags.dir)


def show_of(word: str) -> Callable[[str], str]:
    return mask_arm if is_arm(word) else mask_word


def flag_parser() -> Parser:
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--pairs", type=pairs_or_auto)
    parser.add_argument("--max-pairs", type=pairs, default=50)
    parser.add_argument("--fail-on", type=share, default=0.05)
    parser.add_argument("--statistic", choices=STATISTICS, default=STATISTICS[0])
    parser.add_argument("--seed", type=seed)
    for flag in ("--floor", "--dir", "--resume"):
        parser.add_argument(flag, type=Path)
    return parser


def refuse_wrong_words(overrides: Sequence[str]) -> None:
    previous = ""
    for word in overrides:
        is_value = previous.startswith("-") and previous not in ("-m", "--multirun")
        if not (is_override(word) or word.startswith("-") or is_value):
            raise ConfigError(f"{word}: neither an arm nor an override; arms are {ALLOWED}")
        previous = word


def pairs(text: str) -> int:
    number = int(text) if re.fullmatch(r"[0-9]{1,5}", text) else 0
    if not FEWEST_PAIRS <= number <= MOST_PAIRS:
        allowed = f"allowed are {FEWEST_PAIRS} (fewer have no interval) to {MOST_PAIRS}"
        raise ArgumentTypeError(f"{text}: {allowed}")
    return number


def pairs_or_auto(text: str) -> int | None:
    return None if text == "auto" else pairs(text)


def seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ArgumentTypeError(f"{text}: allowed are numbers >= 0 of at most 18 digits")
    return int(text)


def share(text: str) -> float:
    """Return "5%" or "0.05" as 0.05."""
    value = 0.0
    with contextlib.suppress(ValueError):
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not LEAST_CHANGE <= value <= 1:
        raise ArgumentTypeError(f"{text}: allowed are 0.1% to 100%")
    return value


FILE_NAME = "compare.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """All that determines the runs of a comparison, and its end.

    Attributes:
        arms: the first one is the baseline.
        seed: decides the order of runs and the seeds of pairs.
        floor: noise floor of points as a share, by their names.
        order: order of all rounds; a comparison ends earlier once it is answered.
        started_in: working directory of the command line, the base of relative paths.
    """

    id: str
    arms: list[Arm]
    overrides: list[str]
    options: CompareOptions
    seed: Seed
    floor: dict[str, Amount | None]
    order: list[Round]
    started_in: str = ""
    version: Version = VERSION

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    def digest(self) -> str:
        """Return a hash of all but `started_in`."""
        return hashlib.sha256(replace(self, started_in="").to_json()).hexdigest()


@dataclass(frozen=True)
class ArmRun:
    """One run in the order of a comparison.

    `number` is the number of its round, from 1; `role`: see `Round`; `position` is its place in the
    round, from 0; `arm` is an index of the plan's arms. A control is an A/A pair.
    """

    number: int
    role: int
    arm: int
    position: int
    seed: int
    is_control: bool

    @property
    def name(self) -> str:
        return f"{self.number:03d}-{self.role}"

    def to_comparison_run(self, plan: ComparisonPlan) -> ComparisonRun:
        arm = plan.arms[self.arm].text
        return ComparisonRun(id=plan.id, arm=arm, pair=self.number, position=self.position)


def runs_of_round(number: int, this_round: Round) -> list[ArmRun]:
    """Return the runs of a round, in order; rounds are numbered from 1."""
    return [
        ArmRun(
            number,
            role,
            0 if this_round.is_control else role,
            position,
            this_round.seed,
            this_round.is_control,
        )
        for position, role in enumerate(this_round.roles)
    ]


def new_plan(request: CompareRequest, folder: Path, id: str = "") -> ComparisonPlan:
    """Return the plan of a new comparison, with a new id for ""; write nothing.

    Raise ConfigError for a wrong arm, or without a noise floor in the file of --floor.
    """
    seed = request.seed if request.seed is not None else random.SystemRandom().getrandbits(31)
    pairs = request.options.pairs or request.options.max_pairs
    return ComparisonPlan(
        id=id or uuid.uuid4().hex[:12],
        arms=[parse_arm(text, folder / "trees") for text in request.arms],
        overrides=request.overrides,
        options=request.options,
        seed=seed,
        floor=read_floor(request.floor) if request.floor else {},
        order=order_of_runs(pairs, seed, len(request.arms)),
        started_in=os.getcwd(),
    )


def new_folder() -> Path:
    now = datetime.datetime.now()
    return Path("outputs") / f"compare_{now:%Y-%m-%d_%H-%M-%S.%f}"


def read_plan(folder: Path, secrets: Sequence[str] = ()) -> ComparisonPlan:
    """Read a plan, and replace its masked words by `secrets`.

    Raise ConfigError for no plan, one that lacks a secret, or one that another user may have
    written: it is executed.
    """
    path = folder / FILE_NAME
    try:
        plan = parse_plan(trust.read(path, files.MOST_BYTES))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not the plan of a comparison ({error})") from None
    place = f"compare --resume {folder}"
    arm_words = [word for word in secrets if is_arm(word)]
    override_words = [word for word in secrets if not is_arm(word)]
    texts = restore_secrets([arm.text for arm in plan.arms], arm_words, place, mask_arm)
    arms = [
        replace(arm, text=mask_arm(text))
        if text == arm.text
        else with_secrets(arm, parse_arm(text, folder))
        for arm, text in zip(plan.arms, texts, strict=True)
    ]
    return replace(
        plan, arms=arms, overrides=restore_secrets(plan.overrides, override_words, place)
    )


def with_secrets(arm: Arm, typed: Arm) -> Arm:
    return replace(arm, environment=typed.environment, overrides=typed.overrides)


def parse_plan(content: bytes) -> ComparisonPlan:
    plan = decode(content, ComparisonPlan)
    if plan.version != VERSION or len(plan.arms) < 2:
        raise ValueError("another version")
    if any(role >= len(plan.arms) for this_round in plan.order for role in this_round.roles):
        raise ValueError("a round has an arm that the plan lacks")
    return plan


class FloorOfPoint(msgspec.Struct):
    name: str
    floor_of_pairs: Amount | None


class FloorFile(msgspec.Struct):
    points: Sequence[FloorOfPoint]


def read_floor(path: Path) -> dict[str, float | None]:
    """Read each point's noise floor from compare_result.json; raise ConfigError if unreadable."""
    try:
        content = files.read_json(path.resolve(), FloorFile)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--floor {path}: allowed is {RESULT_FILE} of a comparison of identical code ({error})"
        ) from None
    return {point.name: point.floor_of_pairs for point in content.points}


def claim_new(folder: Path) -> None:
    """Make the folder of a new comparison; raise ConfigError unless it is empty."""
    if (folder / FILE_NAME).exists():
        raise ConfigError(
            f"--dir {folder}: holds a comparison; to go on with it: "
            f"python -m benchkit compare --resume {folder}"
        )
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"--dir {folder}: is not empty; allowed is a folder of its own")
    trust.make_folder(folder)


def write_plan(plan: ComparisonPlan, folder: Path) -> None:
    arms = [arm.without_secrets() for arm in plan.arms]
    masked = replace(plan, arms=arms, overrides=mask_words(plan.overrides))
    files.write_atomically(folder / FILE_NAME, masked.to_json())
