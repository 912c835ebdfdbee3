"""What a rank does around the samples of its cases, beside timing them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from benchkit.api.case import Case, noop


def no_series(case: Case) -> AbstractContextManager[object]:
    """Does nothing; the default of `Hooks.series`."""
    return nullcontext()


@dataclass(frozen=True)
class Hooks:
    """What a rank does around samples; nothing by default.

    Attributes:
        series: entered for each series of samples of a case, in the warm-up and in blocks.
        measured: entered once, around the blocks of all cases, after the warm-up.
        before_sample: called before each sample, after the reset and outside the clock.
        spoil: overwrites what a call returned, which a checked call must not return again.
        after_oom: frees memory after a case ran out of it; the case is skipped and the others are
            timed. None where the other ranks would wait for that case; then its exception is
            raised.
    """

    series: Callable[[Case], AbstractContextManager[object]] = no_series
    measured: Callable[[], AbstractContextManager[object]] = nullcontext
    before_sample: Callable[[], object] = noop
    spoil: Callable[[Any], object] = noop
    after_oom: Callable[[], object] | None = None


DEFAULT_HOOKS = Hooks()
