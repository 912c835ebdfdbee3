"""All-reduce in place: each rank's buffer becomes the reduction of all ranks' buffers."""

from dataclasses import dataclass
from functools import partial

from benchkit.case import Case, Rank, Work
from benchkit.config import RunConfig, key
from benchkit.errors import ConfigError
from benchkit.registry import suite


@dataclass
class AllReduceConfig(RunConfig):
    data_size: float = key("size of each rank's buffer (2^20 bytes)", unit="MiB", above=0)
    dtype: str = key("element type", choices=("float16", "bfloat16", "float32", "float64", "int32", "int64"))
    reduce_op: str = key("reduction", choices=("sum", "avg", "min", "max", "product"))

    def check(self) -> None:
        super().check()
        if self.reduce_op == "avg" and self.dtype.startswith("int"):
            raise ConfigError(f"reduce_op=avg: allowed with a floating-point dtype, not dtype={self.dtype}")


@suite
def allreduce(config: AllReduceConfig, rank: Rank) -> list[Case]:
    """Time and bandwidth of torch.distributed.all_reduce."""
    import torch
    import torch.distributed as dist

    from benchkit import verification

    dtype = getattr(torch, config.dtype)
    op, world_size = config.reduce_op, rank.world_size
    num_elements = max(1, round(config.data_size * 2**20 / dtype.itemsize))
    payload_bytes = num_elements * dtype.itemsize
    if shortage := rank.memory_shortage(2 * payload_bytes):  # the backend may need a copy
        return [Case(skip=shortage)]
    buffer = torch.empty(num_elements, dtype=dtype, device=rank.device)
    reduce_op = getattr(dist.ReduceOp, op.upper())
    turns = iter(range(2**31))
    drawn = {"seed": rank.seed, "world_size": world_size, "dtype": dtype, "op": op, "length": num_elements}

    def inputs(turn: int) -> torch.Tensor:
        return verification.pattern(turn=turn, rank=rank.index, **drawn).to(rank.device, dtype)

    def step() -> None:
        dist.all_reduce(buffer, op=reduce_op)

    def verify() -> None:
        turn = next(turns)
        verification.tile(buffer, inputs(turn))
        step()
        expected = verification.reduced(turn=turn, **drawn).to(rank.device, dtype)
        verification.require_tiled(buffer, expected, verification.tolerance(world_size, dtype, op))

    timed_inputs = inputs(turn=-1)
    work = Work(payload_bytes, bus_factor=2 * (world_size - 1) / world_size if world_size > 1 else None)
    repeats = verification.max_repeats(world_size, dtype, op)
    reset = partial(verification.tile, buffer, timed_inputs)
    return [Case(step=step, reset=reset, verify=verify, work=work, max_calls_per_reset=repeats)]
