"""How much identical runs differ on a machine: noise_floor.json in the user's state folder.

A floor applies to runs with the same fingerprint, for 30 days. The file may come from elsewhere, so
its values are checked when it is read; a file that is not readable counts as none.
"""

import contextlib
import datetime
import hashlib
import math
import os
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from benchkit.record import files
from benchkit.record.record import (
    Amount,
    Count,
    HostReport,
    NoiseFloor,
    NumRanks,
    PlainText,
    Record,
)

FILE_NAME = "noise_floor.json"
VALID_S = 30 * 24 * 3600.0
"""An older floor does not apply."""
FEWEST_RUNS = 6
"""With fewer runs a size has no floor, and a stored one is ignored: their spread is unknown."""
MOST_BYTES = 2**20
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


@dataclass(frozen=True, kw_only=True)
class Fingerprint:
    """Conditions that the noise between runs depends on; hosts of one kind share them.

    `kernel` and `torch` are major and minor versions, `threads` those of each rank, `gpu` and
    `driver` those that ranks on GPUs use.
    """

    cpu: str | None
    cores: Amount | None
    kernel: str
    torch: str
    world_size: NumRanks
    threads: Count
    backend: str
    device: str = "cpu"
    gpu: str = ""
    driver: str = ""


@dataclass(frozen=True, kw_only=True)
class SizeFloor:
    """How much runs of one size, named by `what`, differ.

    `median_s` is the median over the runs of the median time of a call, `sigma_run` the standard
    deviation of the logarithms of the runs' medians.
    """

    what: PlainText
    median_s: Positive
    sigma_run: Amount
    num_runs: Count


@dataclass(frozen=True, kw_only=True)
class MachineFloor:
    """Result of one selftest; `written_at` is UTC, ISO 8601, and `id` follows from the rest."""

    id: PlainText
    written_at: str
    fingerprint: Fingerprint
    sizes: Annotated[list[SizeFloor], msgspec.Meta(min_length=1)]

    def age_s(self) -> float:
        """Return the seconds since it was written; raise ValueError for a wrong time."""
        written = datetime.datetime.fromisoformat(self.written_at)
        return (datetime.datetime.now(datetime.timezone.utc) - written).total_seconds()

    def nearest(self, operation: str, seconds: float) -> SizeFloor | None:
        """Return the size of an operation with the nearest time; None without a size."""
        call_s = max(seconds, 1e-9)  # the clock's resolution
        candidates = [
            size
            for size in self.sizes
            if size.what.startswith(f"{operation} ") and size.num_runs >= FEWEST_RUNS
        ]
        return min(candidates, key=lambda size: abs(math.log(size.median_s / call_s)), default=None)


@dataclass(frozen=True)
class StoredFloors:
    floors: list[MachineFloor] = field(default_factory=list)


def fingerprint(
    host: HostReport, world_size: int, threads: int, backend: str, device: str = "cpu"
) -> Fingerprint:
    return Fingerprint(
        cpu=host.cpu,
        cores=host.available_cores,
        kernel=major_minor(host.kernel),
        torch=major_minor(host.torch),
        world_size=world_size,
        threads=threads,
        backend=backend,
        device=device,
        gpu=host.gpus[0].get("name", "") if device == "cuda" and host.gpus else "",
        driver=host.driver or "" if device == "cuda" else "",
    )


def major_minor(version: str | None) -> str:
    """Return the first two numbers of a version: "6.1" of "6.1.0-18-amd64"; "" of none."""
    return ".".join(re.findall(r"\d+", version or "")[:2])


def machine_floor(
    found_on: Fingerprint, sizes: Sequence[SizeFloor], written_at: str
) -> MachineFloor:
    digest = hashlib.sha256(msgspec.json.encode([found_on, sizes, written_at])).hexdigest()
    return MachineFloor(
        id=digest[:12], written_at=written_at, fingerprint=found_on, sizes=list(sizes)
    )


def state_folder() -> Path:
    """Return the folder of the user's state: $XDG_STATE_HOME/benchkit or ~/.local/state/benchkit.

    A relative XDG_STATE_HOME is ignored, as the XDG base directory specification requires. A user
    without a home, as a number may be in a container, has no state.
    """
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = configured if configured.is_absolute() else Path(os.path.expanduser("~/.local/state"))
    return base / "benchkit" if base.is_absolute() else Path(os.devnull, "benchkit")


def read(folder: Path) -> list[MachineFloor]:
    """Return the floors in a folder's file; raise ValueError, of one line, if not readable."""
    path = folder / FILE_NAME
    try:
        if not path.exists():
            return []
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise ValueError("no file of floors")
        floors = msgspec.json.decode(path.read_bytes(), type=StoredFloors).floors
        for floor in floors:
            floor.age_s()
    except (OSError, ValueError, TypeError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path}: ignored, not readable as noise floors ({reason})") from None
    return floors


def store(floor: MachineFloor, folder: Path) -> Path:
    """Write a floor in place of the one with its fingerprint; return the path of the file."""
    try:
        others = [stored for stored in read(folder) if stored.fingerprint != floor.fingerprint]
    except ValueError:
        others = []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    content = msgspec.json.encode(StoredFloors([*others, floor]))
    files.write_atomically(path, msgspec.json.format(content, indent=2) + b"\n")
    return path


def find_floor(wanted: Fingerprint) -> MachineFloor | None:
    """Return the floor of this fingerprint unless it is too old, or None."""
    with contextlib.suppress(ValueError):
        for floor in read(state_folder()):
            if floor.fingerprint == wanted and 0 <= floor.age_s() <= VALID_S:
                return floor
    return None


def floor_of(record: Record) -> NoiseFloor | None:
    """Return the noise floor that applies to a record.

    It is None if no case was measured, and for records unlike a selftest: other operations, several
    hosts, or ranks that were slowed down.
    """
    cases = [case for case in record.cases if case.status == "ok" and case.samples_s]
    if not cases or len({agent.host for agent in record.agents}) > 1 or record.slowdown.mechanism:
        return None
    settings = record.settings
    threads, device = record.threads_per_rank, settings.hardware.device
    of_run = record.world_size, threads, settings.backend.name, device
    floor = find_floor(fingerprint(record.environment, *of_run))
    if floor is None:
        return None
    size = floor.nearest(record.title, statistics.median(case.typical_s for case in cases))
    if size is None:
        return None
    return NoiseFloor(id=floor.id, age_s=floor.age_s(), sigma_run=size.sigma_run, at=size.what)


def problem() -> str | None:
    """Return why the file of floors is ignored, in one line; None if it is not."""
    try:
        read(state_folder())
    except ValueError as error:
        return str(error)
    return None
