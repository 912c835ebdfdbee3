"""benchkit: distributed deep-learning benchmarks from one command, or from Python.

`benchkit.run(suite="allreduce", data_size=[1, 10])` runs a sweep and returns its table
(docs/api.md). This module imports nothing heavy: `--help` and configuration errors must answer
without torch, and every rank imports it. Therefore `run` is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

from benchkit.errors import ConfigError, SweepStopped
from benchkit.version import __version__

if TYPE_CHECKING:
    from benchkit.python_api import run

__all__ = ["ConfigError", "SweepStopped", "__version__", "run"]


def __getattr__(name: str) -> Any:
    if name != "run":
        raise AttributeError(f"module 'benchkit' has no attribute {name!r}")
    from benchkit.python_api import run

    return run
