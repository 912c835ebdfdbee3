"""What the suite collective asks."""

from dataclasses import replace

from benchkit.api.question import BUSBW, FIRST, LEAST, TIME, Contest, Question
from benchkit.statistics.estimators import BACK_TO_BACK, LATENCY
from benchkit.suites.collective.suite import TIMING

QUESTION = Question(
    work=("collective", "data_size", "world_size", "dtype", "reduce_op", "ragged", TIMING),
    contests=(
        Contest(("backend",), over={"backend": "gloo"}),
        Contest(("backend_env",), over={"backend_env": FIRST}),
        Contest(("async_op",), over={"async_op": False}),
    ),
    merits=(
        replace(TIME, at=LEAST, only={TIMING: LATENCY}),
        replace(BUSBW, only={TIMING: BACK_TO_BACK}),
    ),
    scale=("data_size", "world_size"),
    across=TIMING,
    words={
        "world_size": "{} ranks",
        f"{TIMING}={LATENCY}": "alone",
        f"{TIMING}={BACK_TO_BACK}": "back to back",
        "async_op=True": "async",
        "async_op=False": "blocking",
    },
    further="More ranks: world_size=2,4",
)
