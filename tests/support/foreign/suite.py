"""A suite outside of benchkit, with all that a suite may bring: sums of vectors."""

from dataclasses import dataclass

from benchkit.api.case import Call, Case, Rank, Work
from benchkit.api.keys import RunConfig, key
from benchkit.api.question import LEAST, Comparison, Question
from benchkit.api.registry import suite
from benchkit.errors import InvalidResult


def powers_of_ten(*exponents: int) -> list[int]:
    return [10**exponent for exponent in exponents]


RESOLVERS = {"powers_of_ten": powers_of_ten}


@dataclass
class VectorSumConfig(RunConfig):
    lengths: list[int] = key("elements of a vector, each length a case", at_least=1)
    remark: str = key("what readers of the record should know", identity=False)

    def title(self) -> str:
        return "vector sums"


QUESTION = Question(
    problem=("length",), comparisons=(Comparison(("world_size",), {"world_size": LEAST}),), scaling_columns=("length",)
)


@suite
def vector_sum(config: VectorSumConfig, rank: Rank) -> list[Case]:
    """Time of the sum of a vector on every rank."""
    import torch

    def case(length: int) -> Case:
        ones = torch.ones(length, device=rank.device)

        def verify(call: Call) -> None:
            if (got := call().item()) != length:
                raise InvalidResult(f"the sum of {length} ones is {got}")

        work = Work(useful_flops=float(length * rank.world_size))
        return Case(step=ones.sum, labels={"length": length}, verify=verify, work=work)

    return [case(length) for length in config.lengths]
