"""What implementations of both products share: buffers, timed steps and chunks of rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch.distributed as dist
from torch import Tensor

from benchkit.api.products import multiply
from benchkit.suites.tensor_parallel.operands import Scratch, Shards

Step = Callable[[], object]
Work = Any
"""The handle of an asynchronous call of torch.distributed."""


@dataclass(frozen=True)
class Buffers:
    """One rank's buffers and its product; each primitive defines what a, b and c are."""

    rows: Shards
    rank: int
    group: dist.ProcessGroup | None
    a: Tensor
    b: Tensor
    c: Tensor
    scratch: Scratch
    matmul: Callable[[Tensor, Tensor, Tensor], object] = multiply


AnyBuffers = TypeVar("AnyBuffers", bound=Buffers)


def in_turns(job: AnyBuffers) -> AnyBuffers:
    """Returns the buffers for one of several steps that have the same scratch memory in turns."""
    return replace(job, scratch=Scratch(job.scratch.memory))


def chunks_of(rows: int, count: int) -> list[slice]:
    """Divides rows into at most `count` nearly equal pieces, none of them empty."""
    pieces = Shards(rows, min(count, rows))
    return [pieces.of(i) for i in range(pieces.world_size)]
