"""Runs a function in a fresh process, for what would change the process that is to be timed."""

import faulthandler
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context

FOREVER_S = 1e6


def run_in_fresh_process(
    function: Callable[..., None], *arguments: object, limit_s: float = FOREVER_S
) -> None:
    """Run a function of a module in a new process, with this environment, and wait for its end.

    Arguments must pickle. Raises what the function raised, TimeoutError after `limit_s`, or
    BrokenProcessPool if it was killed.
    """
    # A thread of the process ends it, whatever it waits for, and says on stderr where that was.
    ends_late = partial(faulthandler.dump_traceback_later, limit_s, exit=True)
    started = time.monotonic()
    with ProcessPoolExecutor(1, get_context("spawn"), ends_late) as process:
        try:
            process.submit(function, *arguments).result()
        except BrokenProcessPool as error:
            if time.monotonic() - started < limit_s:
                raise
            raise TimeoutError(f"no end within {limit_s:g} s") from error
