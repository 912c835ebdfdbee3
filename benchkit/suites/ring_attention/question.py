"""What the suite ring_attention asks."""

from benchkit.api.question import TIME, Contest, Merit, Question
from benchkit.suites.ring_attention.suite import (
    ALL_GATHER,
    EVEN,
    IMPLEMENTATION,
    PHASE,
    REFERENCE,
    STRATEGY,
)

OF_IDEAL = Merit("efficiency", "of ideal", "%", 100)
WORDS = {"seq_len": "{} tokens", "slowdown": "slowdown {}", "world_size": "{} ranks"}
RING_ATTENTION = Question(
    work=("slowdown", "seq_len", "num_heads", "head_dim", "dtype", "causal", "world_size"),
    contests=(
        Contest((STRATEGY,), over={STRATEGY: EVEN}, bounds={STRATEGY: REFERENCE}),
        Contest(("align",), over={"align": 32}),
    ),
    merits=(TIME, OF_IDEAL),
    scale=("slowdown", "seq_len"),
    words=WORDS,
    further="Intervals of each time: measure=adaptive; of fresh ranks: repeat=6",
)
RING_MODEL = Question(
    work=(PHASE, "slowdown", "seq_len", "model", "dtype", "world_size"),
    contests=(Contest((IMPLEMENTATION, STRATEGY), over={STRATEGY: EVEN, IMPLEMENTATION: "ring"}),),
    merits=(TIME, Merit("tokens_per_second", "", "tokens/s")),
    scale=("slowdown", "seq_len"),
    words={**WORDS, f"{IMPLEMENTATION}={ALL_GATHER}": "all-gather"},
)
QUESTION = {"ring_attention": RING_ATTENTION, "ring_model": RING_MODEL}
