"""compare.json: what a comparison compares, so that it can go on after an interruption."""

import datetime
import hashlib
import os
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from benchkit.compare.arms import Arm, parse_arm
from benchkit.compare.command import Options, Request
from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.context import Comparison
from benchkit.record.versions import decoded
from benchkit.statistics.compare.order import Round, order_of_runs
from benchkit.sweep.manifest import require_ours

FILE_NAME = "compare.json"
RESULT_FILE = "compare_result.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that decides what a comparison runs, and when it ends.

    Attributes:
        id: of the comparison, which its records name.
        arms: the first one is the baseline.
        overrides: of all runs.
        options: how they are compared.
        seed: decides the order of runs and the seeds of pairs.
        floor: noise floor of points as a share, by their names.
        order: of all rounds; a comparison that is answered ends before.
        started_in: working directory of the command line, which relative paths begin at.
        version: of the file.
    """

    id: str
    arms: list[Arm]
    overrides: list[str]
    options: Options
    seed: int
    floor: dict[str, float | None]
    order: list[Round]
    started_in: str = ""
    version: int = VERSION

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    def digest(self) -> str:
        """Returns what only the same plan has, wherever it was typed."""
        return hashlib.sha256(replace(self, started_in="").to_json()).hexdigest()


@dataclass(frozen=True)
class Turn:
    """One run in the order of a comparison.

    Attributes:
        number: of its round, from 1.
        role: that it plays in the round, see `Round`.
        arm: index of its arm.
        position: in the round, from 0.
        seed: of the run.
        is_control: whether the round is an A/A pair.
    """

    number: int
    role: int
    arm: int
    position: int
    seed: int
    is_control: bool

    @property
    def name(self) -> str:
        """Of its folder below `runs`."""
        return f"{self.number:03d}-{self.role}"

    def described(self, plan: Plan) -> Comparison:
        """Returns what its records say of it."""
        arm = plan.arms[self.arm].text
        return Comparison(id=plan.id, arm=arm, pair=self.number, position=self.position)


def turns_of(number: int, played: Round) -> list[Turn]:
    """Returns the runs of a round, in their order.

    Args:
        number: of the round, from 1.
        played: the round.
    """
    return [
        Turn(
            number, role, 0 if played.is_control else role, position, played.seed, played.is_control
        )
        for position, role in enumerate(played.roles)
    ]


def new_plan(request: Request, folder: Path, id: str = "") -> Plan:
    """Returns the plan of a fresh comparison; nothing is written.

    Args:
        request: what was typed.
        folder: of the comparison.
        id: of the comparison; "" for a new one.

    Raises:
        ConfigError: an arm is none, or there is no noise floor in the file of --floor.
    """
    seed = request.seed if request.seed is not None else random.SystemRandom().getrandbits(31)
    pairs = request.options.pairs or request.options.max_pairs
    return Plan(
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


def read_plan(folder: Path) -> Plan:
    """Reads the plan of a comparison.

    Raises:
        ConfigError: the folder holds none, or one that another user may have written: it is run.
    """
    path = folder / FILE_NAME
    try:
        require_ours(path)
        return parse_plan(files.read_regular(path))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not the plan of a comparison ({error})") from None


def parse_plan(content: bytes) -> Plan:
    """Parses a plan; raises ValueError where it is none."""
    plan = decoded(content, Plan)
    if plan.version != VERSION or len(plan.arms) < 2:
        raise ValueError("another version")
    return plan


class FloorOfPoint(msgspec.Struct):
    """What `read_floor` reads of a point."""

    name: str
    floor_of_pairs: float | None


class FloorFile(msgspec.Struct):
    """What `read_floor` reads of compare_result.json."""

    points: Sequence[FloorOfPoint]


def read_floor(path: Path) -> dict[str, float | None]:
    """Reads the noise floor of each point from compare_result.json of identical arms.

    Raises:
        ConfigError: the file is not readable, or something else.
    """
    try:
        found = files.read_json(path.resolve(), FloorFile)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--floor {path}: allowed is {RESULT_FILE} of a comparison of identical code ({error})"
        ) from None
    return {point.name: point.floor_of_pairs for point in found.points}


def claim_new(folder: Path) -> None:
    """Makes the folder of a fresh comparison; raises ConfigError if it holds something already."""
    if (folder / FILE_NAME).exists():
        raise ConfigError(
            f"--dir {folder}: holds a comparison; to go on with it: "
            f"python -m benchkit compare --resume {folder}"
        )
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"--dir {folder}: is not empty; allowed is a folder of its own")
    folder.mkdir(parents=True, exist_ok=True)


def write_plan(plan: Plan, folder: Path) -> None:
    files.write_whole(folder / FILE_NAME, plan.to_json())
