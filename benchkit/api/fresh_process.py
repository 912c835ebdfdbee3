"""Runs a function in a fresh process, for what would change the process that is to be timed."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


def run_in_fresh_process(function: Callable[..., None], *arguments: object) -> None:
    """Run a function of a module in a new process, with this environment, and wait for its end.

    Arguments must pickle. Raises what the function raised, or BrokenProcessPool if it was killed.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        process.submit(function, *arguments).result()
