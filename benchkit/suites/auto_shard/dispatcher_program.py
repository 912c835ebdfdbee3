"""A workload in GT's architecture, for comparison: all data passes through one dispatcher.

Shards lie along axis 0. For a product the dispatcher gathers all shards of the weight, concatenates
them, and sends the whole to one worker after another. Each worker multiplies and answers before the
next one's turn, as in the sources of bwasti/gt2 at 31a8a34, whose messages are pickled, over
ZeroMQ. The first rank is dispatcher, client and worker at once; its messages to itself cost nothing
here.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.regions import region
from benchkit.suites.auto_shard.planner import REPLICATED, ROWS, Layout
from benchkit.suites.auto_shard.program import ChainProgram
from benchkit.suites.auto_shard.workloads import COMMUNICATE, COMPUTE

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64)
DONE = len(DTYPES)
MOST_DIMENSIONS = 4


@dataclass
class Dispatched(ChainProgram):
    """One rank's part of the program; `group` sends messages in host memory."""

    group: dist.ProcessGroup | None

    @property
    def workers(self) -> range:
        return range(1, self.plan.devices)

    def send(self, message: Tensor | None, rank: int) -> None:
        """Send a tensor, or with None the message that something is done.

        The tensor is copied into a message of bytes, as pickling does. A header precedes it: the
        number of its dtype, of its dimensions, and the dimensions.
        """
        shape = [] if message is None else list(message.shape)
        kind = DONE if message is None else DTYPES.index(message.dtype)
        header = [kind, len(shape), *shape, *[0] * (MOST_DIMENSIONS - len(shape))]
        dist.send(torch.tensor(header), dst=rank, group=self.group)
        if message is not None and message.numel():
            content = message.contiguous().view(-1).view(torch.uint8).clone()
            dist.send(content, dst=rank, group=self.group)

    def receive(self, rank: int) -> Tensor:
        header = torch.empty(2 + MOST_DIMENSIONS, dtype=torch.int64)
        dist.recv(header, src=rank, group=self.group)
        kind, dimensions, *shape = header.tolist()
        if kind == DONE:
            return torch.empty(0)
        result = torch.empty(shape[:dimensions], dtype=DTYPES[kind])
        if result.numel():
            content = torch.empty(result.numel() * result.element_size(), dtype=torch.uint8)
            dist.recv(content, src=rank, group=self.group)
            result.view(-1).view(torch.uint8).copy_(content)
        return result

    def wait_for_operands(self) -> None:
        self.wait_for_answers()

    def send_done(self) -> None:
        torch.get_device_module(self.device).synchronize()
        self.send(None, 0)

    def wait_for_answers(self) -> None:
        if self.index:
            return self.send_done()
        for worker in self.workers:
            self.receive(worker)
        return None

    def run(self, operands: list[Tensor]) -> Tensor:
        x, *weights = operands
        for layer, weight in zip(self.plan.layers, weights, strict=True):
            x = self.multiply_one_by_one(x, weight, layer.weight_at_rest)
        return x if weights else self.elementwise(x)

    def elementwise(self, x: Tensor) -> Tensor:
        with region(COMPUTE):
            result = x.relu() * 2
        with region(COMMUNICATE):
            self.wait_for_answers()
        return result

    def multiply_one_by_one(self, x: Tensor, weight: Tensor, layout: Layout) -> Tensor:
        whole = self.whole_weight(weight, layout)
        with region(COMPUTE):
            result = self.activate(x @ whole)
        with region(COMMUNICATE):
            if self.index:
                self.send_done()
                return result
            message = whole.cpu()
            for worker in self.workers:
                if layout == ROWS:
                    self.send(message, worker)
                self.receive(worker)
        return result

    def whole_weight(self, weight: Tensor, layout: Layout) -> Tensor:
        if layout == REPLICATED:
            return weight
        with region(COMMUNICATE):
            whole = self.gather_parts(weight)
            if whole is None:
                whole = self.receive(0)
            return whole.to(self.device)

    def gather_parts(self, part: Tensor) -> Tensor | None:
        if self.index:
            self.send(part.cpu(), 0)
            return None
        parts = [part.cpu()]
        for worker in self.workers:
            parts.append(self.receive(worker))
        return torch.cat(parts)

    def fetch(self, output: Tensor) -> Tensor | None:
        if self.plan.layout == REPLICATED:
            return None if self.index else output.cpu()
        return self.gather_parts(output)
