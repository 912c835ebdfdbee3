"""Refuses folders of the user that shadow benchkit's packages launch and analysis.

`python -m` searches the working directory first. This module imports nothing of benchkit, because
that would already import those folders.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

EXIT_CONFIG = 2
NAMES = ("launch", "analysis")


def refuse_shadowed_packages() -> None:
    """Exit, with the reason in one line, if such a folder is in the working directory."""
    root = Path(__file__).resolve().parents[1]
    for name in NAMES:
        spec = find_spec(name)
        path = Path(spec.origin).resolve() if spec and spec.origin else root
        if not path.is_relative_to(root / name):
            print(
                f"benchkit: {path}: Python imports it instead of benchkit's package {name}; type "
                "`benchkit` in place of `python -m benchkit`, or work in another folder",
                file=sys.stderr,
            )
            sys.exit(EXIT_CONFIG)
