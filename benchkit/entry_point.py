"""Starts a command, and in parallel the import of torch.

Torch takes longer to import than Hydra, including the composition of the points.
"""

import sys
from collections.abc import Sequence

from benchkit.api.registry import load_suites, preload_for
from benchkit.config.folders import config_folder, suite_of
from benchkit.errors import ConfigError
from launch import trust
from launch.ranks.fork_server import start_fork_server

PREFIX = "+suite="
ELSEWHERE = ("-", "launcher=", "start_method=", "hydra.mode=", "hydra.sweeper.")
"""Prefixes of arguments by which points run in other processes, or not at all."""


def main() -> int:
    trust.restrict_umask()
    load_torch(sys.argv[1:])
    from benchkit.cli import main as run

    return run()


def load_torch(arguments: Sequence[str]) -> None:
    """Start the fork server, which imports torch while the caller continues.

    Only overrides that name their suites are certain to need it; otherwise the sweeper starts it.
    """
    if not all("=" in word or word in ("-m", "--multirun") for word in arguments):
        return
    if any(word.startswith(ELSEWHERE) for word in arguments if "=" in word):
        return
    folder = config_folder() / "suite"
    lists = [word.removeprefix(PREFIX) for word in arguments if word.startswith(PREFIX)]
    names = {suite_of(folder / f"{name}.yaml") for text in lists for name in text.split(",")}
    try:
        if names and names <= set(load_suites()):
            start_fork_server(preload_for(names))
    except (ConfigError, OSError):
        return  # in a suite outside benchkit, or in TMPDIR: the command line reports it
