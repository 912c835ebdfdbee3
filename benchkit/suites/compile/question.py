"""What the suite compile asks."""

from benchkit.api.question import Contest, Merit, Question
from benchkit.suites.compile.suite import CACHE, COMPILER, DYNAMIC, EAGER

QUESTION = Question(
    work=("workload", "batch_sizes", "width", "depth", "context_length", "backward", "dtype"),
    contests=(
        Contest((COMPILER, CACHE, DYNAMIC), over={COMPILER: EAGER}),
        Contest((CACHE,), over={CACHE: "cold"}),
    ),
    merits=(
        Merit("warm_s", "", "ms", 1e3, rises=False),
        Merit("first_call_s", "first call", "ms", 1e3, rises=False),
    ),
    scale=("batch_sizes",),
    words={"batch_sizes": "batch {}"},
    further="After how many calls it pays: measure=cold_curve, then analysis/compile.md",
)
