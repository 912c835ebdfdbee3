"""What the suite matmul_lut asks."""

from benchkit.api.lut import SIZE
from benchkit.api.question import TFLOP_PER_S, TIME, Contest, Question

QUESTION = Question(
    work=(SIZE, "dtype", "bg_streams"),
    contests=(Contest(("slowdown",), over={"slowdown": "1"}),),
    merits=(TIME, TFLOP_PER_S),
    scale=(SIZE,),
    free=("world_size",),
    words={"slowdown": "slowdown {}", "world_size": "{} ranks"},
    further="Use the table: +suite=ring_attention lut=FILE",
)
