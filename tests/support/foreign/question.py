"""What the suite vector_sum asks: how long a sum takes as more ranks sum."""

from benchkit.api.question import LEAST, Contest, Question

QUESTION = {
    "vector_sum": Question(
        work=("length",), contests=(Contest(("world_size",), {"world_size": LEAST}),), scale=("length",)
    )
}
