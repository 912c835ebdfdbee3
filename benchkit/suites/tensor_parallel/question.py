"""What the suite tensor_parallel asks."""

from benchkit.api.question import TFLOP_PER_S, TIME, Cells, Contest, Merit, Question
from benchkit.suites.tensor_parallel.suite import (
    CHUNKS,
    COLLECTIVE,
    COMM_BACKEND,
    DEFAULT,
    IMPLEMENTATION,
    ORDER,
    PYTORCH,
    SIZE,
)

OF_LIMIT = Merit("limit_share", "of limit", "%", 100)


def question(over: Cells) -> Question:
    by = (IMPLEMENTATION, SIZE, ORDER, COLLECTIVE, CHUNKS, COMM_BACKEND)
    return Question(
        work=("m", "n", "k", "dtype", "inputs", "world_size"),
        contests=(Contest(by, over={IMPLEMENTATION: PYTORCH, **over}),),
        merits=(TIME, OF_LIMIT, TFLOP_PER_S),
        scale=("m", "n", "k"),
        words={
            CHUNKS: "{} chunks",
            f"{CHUNKS}=1": "1 chunk",
            f"{COMM_BACKEND}={DEFAULT}": "",
            "world_size": "{} ranks",
        },
    )


QUESTION = {
    "tp_columnwise": question({ORDER: "AG_before"}),
    "tp_rowwise": question({COLLECTIVE: "reduce_scatter"}),
}
