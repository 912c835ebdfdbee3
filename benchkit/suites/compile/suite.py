"""The suite compile: after how many calls compiled code has made up for its compilation."""

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.compile.config import CompileConfig, model_width

RESOLVERS = {"model_width": model_width}
PRELOAD = ("benchkit.suites.compile.cases",)
"""It imports no compiler: loading that is a part of the first call."""


@suite
def compile(config: CompileConfig, rank: Rank) -> list[Case]:
    """Time to the first step, compile time, steady state and recompilations, against eager."""
    from benchkit.suites.compile.cases import cases_of

    return cases_of(config, rank)
