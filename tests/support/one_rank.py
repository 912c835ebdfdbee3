"""What a rank does with its cases, in this process, as the only rank of its point."""

from types import SimpleNamespace

from tests.support import configs, fakes
from tests.support.entries import rank
from tests.support.entries.measure import HostClock
from tests.support.entries.slowdown import NoThrottle

UNSLOWED = rank.ThrottleController(NoThrottle(), 1.0, 1.0)


def group(**changes):
    """The control group of such a point."""

    def first_reason(reasons):
        return [rank.first_rank_reason((reason,)) for reason in reasons]

    own = {"world_size": 1, "barrier": lambda: None, "all_gather": fakes.alone, "first_reason": first_reason}
    return SimpleNamespace(**own | changes)


def reports_of(cases, watch=None, **measure):
    """The cases as the record has them, verified and measured on the host's clock."""
    config = configs.config(measure=fakes.plan(**measure))
    watch = watch or rank.GpuWatch(rank.Devices([]))
    return rank.run_cases.run_cases(rank.RankRun(config, HostClock(), group(), UNSLOWED, watch), cases)
