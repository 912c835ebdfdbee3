"""Let child processes import modules from the same places as this one.

`python -m` and `python -c` search the working directory first, where a user may have folders with
the names of ours. A console script does not search it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def path_options() -> list[str]:
    """Return the options of `python -m` that skip the working directory, if this process does."""
    is_searched = bool({"", os.getcwd()} & set(sys.path))
    return [] if is_searched or sys.version_info < (3, 11) else ["-P"]


@contextmanager
def path_in_environment() -> Iterator[None]:
    """Let processes started in this context search our `sys.path`, and nothing before it.

    From Python 3.11 on, PYTHONSAFEPATH keeps the working directory out.
    """
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    variables = {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
