"""The start of a command: torch loads beside all else that comes before the first point.

Torch takes longer to import than Hydra takes to be imported and to compose the points.
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
"""How arguments begin that measure in processes of their own, or not at all."""


def main() -> int:
    trust.restrict_umask()
    load_torch(sys.argv[1:])
    from benchkit.cli import main as run

    return run()


def load_torch(arguments: Sequence[str]) -> None:
    """Start the fork server, which imports torch while the caller continues.

    Only a line of overrides that names its suites is certain to need it; else the sweeper starts
    it.
    """
    if not all("=" in each or each in ("-m", "--multirun") for each in arguments):
        return
    if any(each.startswith(ELSEWHERE) for each in arguments if "=" in each):
        return
    folder = config_folder() / "suite"
    given = [each.removeprefix(PREFIX) for each in arguments if each.startswith(PREFIX)]
    names = {suite_of(folder / f"{name}.yaml") for each in given for name in each.split(",")}
    try:
        if names and names <= set(load_suites()):
            start_fork_server(preload_for(names))
    except (ConfigError, OSError):
        return  # of a suite outside benchkit, or of TMPDIR: the command line reports it
