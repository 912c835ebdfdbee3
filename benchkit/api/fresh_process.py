"""Run a function in a fresh process, so that it does not change the process that is timed."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


def run_in_fresh_process(function: Callable[..., None], *arguments: object) -> None:
    """Run a function of a module in a new process with this environment, and wait for its end.

    Arguments must pickle. Raises the function's exception, or BrokenProcessPool if it was killed.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        process.submit(function, *arguments).result()
