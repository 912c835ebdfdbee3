"""Finds folders of the user that Python would import instead of benchkit's other packages.

`python -m` searches the working directory first. This module imports nothing of benchkit, because
that would already import those folders.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

EXIT_CONFIG = 2
NAMES = ("launch", "analysis")


def require_ours() -> None:
    """End the process, with one line that says why, if benchkit cannot run from this folder."""
    ours = Path(__file__).resolve().parents[1]
    for name in NAMES:
        spec = find_spec(name)
        found = Path(spec.origin).resolve() if spec and spec.origin else ours
        if not found.is_relative_to(ours / name):
            print(
                f"benchkit: {found}: Python imports it instead of benchkit's package {name}; type "
                "`benchkit` in place of `python -m benchkit`, or work in another folder",
                file=sys.stderr,
            )
            sys.exit(EXIT_CONFIG)
