"""Runs a function in new rank processes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.entries.launch_ranks import RankResults, start_ranks


def run_ranks(
    target: str, arguments: Sequence[Any], *,
    environments: Sequence[Mapping[str, str]], folder: Path, timeout_s: float, **settings: Any,
) -> RankResults:  # fmt: skip
    """How new processes ended that called `target`, each with its argument; leaves none running."""
    with start_ranks(environments, **settings) as ranks:
        return ranks.run(target, arguments, folder=folder, timeout_s=timeout_s)
