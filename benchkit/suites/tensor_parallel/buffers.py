"""What implementations of both products share: buffers, timed steps and chunks of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor

from benchkit.suites.tensor_parallel.operands import Scratch, Shards

Step = Callable[[], object]
Work = Any
"""The handle of an asynchronous call of torch.distributed."""


@dataclass(frozen=True)
class Buffers:
    """The buffers of one rank; each primitive defines what a, b and c are."""

    rows: Shards
    rank: int
    group: dist.ProcessGroup | None
    a: Tensor
    b: Tensor
    c: Tensor
    scratch: Scratch


def chunks_of(rows: int, count: int) -> list[slice]:
    """Divides rows into at most `count` nearly equal pieces, none of them empty."""
    pieces = Shards(rows, min(count, rows))
    return [pieces.of(i) for i in range(pieces.world_size)]
