"""The console script `benchkit`.

It runs the package as `python -m benchkit` does, so that ranks do not import the script again.
"""

import runpy


def main() -> None:
    """Runs the command line and ends with its exit code."""
    runpy.run_module("benchkit", run_name="__main__", alter_sys=True)
