"""Breaks the code in one place after another: a test must fail each time, if it can one of `make test`.

    python -m tests.breakages [FILE ...]

Each breakage is made in a copy of the checkout. Prints a table: what was broken, and which test saw it.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.breakages import BREAKAGES, Breakage, copy_checkout

QUICK, SLOW = ("-m", "not slow and not cluster"), ("-m", "slow or cluster")


def caught_by(breakage: Breakage) -> str:
    """The test that fails once the breakage is made, and whether it is a slow one; "" where none does."""
    for selection, tier in ((QUICK, ""), (SLOW, " (slow)")):
        if test := first_failure(breakage, selection):
            return f"`tests/{breakage.tests}.py::{test}`{tier}"
    return ""


def first_failure(breakage: Breakage, selection: tuple[str, str]) -> str:
    """The first test of a selection that fails once the breakage is made; "" where none does."""
    with tempfile.TemporaryDirectory() as folder:
        copy_checkout(Path(folder))
        path = Path(folder) / place_of(breakage)
        path.write_text(path.read_text().replace(breakage.sound, breakage.broken))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", *selection, f"tests/{breakage.tests}.py"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.search(r"^(?:FAILED|ERROR) \S+?::(\w+)", done.stdout, re.MULTILINE)
    return found[1] if found else ""


def place_of(breakage: Breakage) -> Path:
    places = breakage.places()
    if len(places) != 1:
        raise SystemExit(f"{breakage.sound!r} is in {len(places)} places, not in one: {', '.join(map(str, places))}")
    return places[0]


def main(files: list[str]) -> int:
    """Prints a row per breakage; 1 where one went unseen."""
    unseen = 0
    print("| file | sound | broken | caught by |\n|---|---|---|---|")
    for breakage in BREAKAGES:
        if files and str(place_of(breakage)) not in files:
            continue
        caught = caught_by(breakage)
        unseen += not caught
        sound, broken = (" ".join(text.split()) for text in (breakage.sound, breakage.broken))
        print(f"| {place_of(breakage)} | `{sound}` | `{broken}` | {caught or '**nothing**'} |", flush=True)
    return 1 if unseen else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
