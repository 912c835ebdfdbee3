"""What the suite transformer asks."""

from benchkit.api.question import FIRST, LEAST, TIME, Contest, Merit, Question
from benchkit.suites.transformer.suite import FORWARD_BACKWARD, PASS, RANKS, TRAIN_STEP

QUESTION = Question(
    work=("model", "context_length", "batch_size", "dtype", PASS),
    contests=(
        Contest((RANKS, "parallel"), over={RANKS: LEAST}),
        Contest(("compile",), over={"compile": "none"}),
        Contest(("attention",), over={"attention": "auto"}),
        Contest(("activation_checkpointing",), over={"activation_checkpointing": False}),
        Contest(("bucket_mib",), over={"bucket_mib": FIRST}),
        Contest(("warmup_iterations",), over={"warmup_iterations": FIRST}),
    ),
    merits=(
        TIME,
        Merit("tokens_per_second", "", "tokens/s"),
        Merit("mfu_full", "MFU", "%", 100),
    ),
    scale=("model", "context_length", "batch_size"),
    across=PASS,
    free=("part", "data_path"),
    words={
        "context_length": "{} tokens",
        "batch_size": "batch {}",
        RANKS: "{} ranks",
        f"{RANKS}=1": "1 rank",
        "world_size": "{} ranks",
        "parallel=none": "",
        f"{PASS}={FORWARD_BACKWARD}": "with backward",
        f"{PASS}={TRAIN_STEP}": "train step",
        "compile=none": "eager",
        "compile=default": "compiled",
    },
    further="Larger: model=small context_length=128,256,512",
)
