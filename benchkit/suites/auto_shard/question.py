"""What the suite auto_shard asks."""

from benchkit.api.question import LEAST, TFLOP_PER_S, TIME, Contest, Question
from benchkit.suites.auto_shard.suite import (
    AUTO,
    END_TO_END,
    INDEPENDENT,
    RANKS,
    SCOPE,
    SHARDING,
    UNSHARDED,
)

QUESTION = Question(
    work=(SCOPE, "workload", "scaling", "dtype"),
    contests=(
        Contest(
            by=(RANKS, SHARDING),
            over={RANKS: LEAST},
            main={SHARDING: AUTO},
            bounds={SHARDING: INDEPENDENT},
        ),
    ),
    merits=(TIME, TFLOP_PER_S),
    scale=("workload",),
    free=("world_size", "engine", "planner"),
    words={
        RANKS: "{} devices",
        f"{RANKS}=1": "1 device",
        f"{SHARDING}={UNSHARDED}": "",
        f"{SCOPE}={END_TO_END}": "end to end",
    },
    further="Why not more: analysis/auto_shard.md",
)
