"""Where processes that this one starts find modules: where this one does.

`python -m` and `python -c` look in the working directory first, where a user may have folders that
are named like ours. A console script does not look there.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def path_options() -> list[str]:
    """Return options of `python -m` that keep the working directory out where it is out here."""
    is_searched = bool({"", os.getcwd()} & set(sys.path))
    return [] if is_searched or sys.version_info < (3, 11) else ["-P"]


@contextmanager
def path_in_environment() -> Iterator[None]:
    """Let what is started meanwhile search our `sys.path`, in its order and nothing before it.

    From Python 3.11 on, PYTHONSAFEPATH keeps the working directory from being searched first.
    """
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    given = {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
