"""All that suites rely on inside of torch's compiler, which promises none of it.

tests/unit/api/test_compiler_internals.py pins the names and the results.
"""

import sys
import threading
from dataclasses import dataclass

import torch

GRAPH_BREAKS = ("graph_break", "unimplemented")
"""Where torch counts breaks, each in one of them; the second has branches on values of tensors."""

EVENTS = 100_000
"""How many compilations torch is to remember."""


@dataclass(frozen=True)
class Compilations:
    """What torch.compile has compiled in this process.

    Attributes:
        seconds: of compilation, of forward and backward graphs.
        graphs: graphs that were made.
        graph_breaks: places where code was split into several graphs.
        recompilations: compilations of code that had been compiled for other inputs.
        cache_hits: graphs that inductor found in its cache on disk.
        cache_misses: graphs that it did not find there.
    """

    seconds: float = 0.0
    graphs: int = 0
    graph_breaks: int = 0
    recompilations: int = 0
    cache_hits: int = 0
    cache_misses: int = 0


def is_compiler_loaded() -> bool:
    """Returns whether this process has used torch.compile, or something else that loads it."""
    return "torch._dynamo" in sys.modules


def reset_compiler() -> None:
    """Forgets what was compiled in this process, and the counts of it; loads no compiler."""
    if is_compiler_loaded():
        from torch._dynamo import utils

        torch.compiler.reset()
        utils.clear_compilation_metrics()
        utils.counters.clear()


def compilations() -> Compilations:
    """Counts the compilations since `reset_compiler`; to be called after each call that compiles.

    Of the first call torch keeps the latest 64 events, after that EVENTS. Before torch.compile is
    first used there are none, and its libraries are not loaded for this.
    """
    if not is_compiler_loaded():
        return Compilations()
    from torch._dynamo import utils

    utils.set_compilation_metrics_limit(EVENTS)
    events = [event for event in utils.get_compilation_metrics() if not event.is_runtime]
    inductor = utils.counters["inductor"]
    return Compilations(
        seconds=sum(event.duration_us or 0 for event in events) / 1e6,
        graphs=utils.counters["stats"]["unique_graphs"],
        graph_breaks=sum(sum(utils.counters[kind].values()) for kind in GRAPH_BREAKS),
        recompilations=sum(event.recompile_reason is not None for event in events),
        cache_hits=inductor["fxgraph_cache_hit"],
        cache_misses=inductor["fxgraph_cache_miss"],
    )


def keep_progress_bars_local() -> None:
    """Gives the progress bars of this process a lock that it shares with no other.

    Tracing makes a bar, whose own lock is a semaphore. A rank ends without releasing it, and Python
    would warn of that on the terminal.
    """
    from torch.hub import tqdm

    if hasattr(tqdm, "set_lock"):  # torch has a bar of its own where tqdm is missing
        tqdm.set_lock(threading.RLock())
