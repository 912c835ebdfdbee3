"""The file that makes a run of a comparison count."""

from dataclasses import dataclass
from pathlib import Path

from benchkit.record import files

RUN_FILE = "run.json"


@dataclass(frozen=True)
class Ended:
    """RUN_FILE.

    Attributes:
        arm: as it was typed.
        num_points: of its sweep.
        seconds: that it took.
    """

    arm: str
    num_points: int
    seconds: float


def read_end(folder: Path) -> Ended | None:
    """Returns what the file of a run says; None for a run that does not count."""
    try:
        return files.read_json(folder / RUN_FILE, Ended)
    except (OSError, ValueError):
        return None
