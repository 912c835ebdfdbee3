"""The console script `benchkit`.

It runs the package as `python -m benchkit` does, so that ranks do not import the script again.
"""

import runpy


def main() -> None:
    runpy.run_module("benchkit", run_name="__main__", alter_sys=True)
