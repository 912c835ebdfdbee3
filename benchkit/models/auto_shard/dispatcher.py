"""GT's architecture, for comparison: whatever moves is pickled, goes through one process, and worker waits for worker.

Shards lie along axis 0. For a product the dispatcher gathers all shards of the weight, concatenates them, and sends the
whole to one worker after another, each of which multiplies and answers before the next one's turn (bwasti/gt2 at
31a8a34, as its sources do it; there by ZeroMQ). The first rank is dispatcher, client and worker at once, so what it
sends to itself costs nothing here.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.models.auto_shard.plans import ROWS, WHOLE
from benchkit.models.auto_shard.programs import COMMUNICATE, COMPUTE, Program
from benchkit.regions import region

DONE = "done"


@dataclass
class Dispatched(Program):
    """One rank's side; `group` carries messages of host memory."""

    group: dist.ProcessGroup | None

    @property
    def workers(self) -> range:
        """All but the dispatcher itself."""
        return range(1, self.plan.devices)

    def send(self, message: Any, rank: int) -> None:
        dist.send_object_list([message], dst=rank, group=self.group)

    def receive(self, rank: int) -> Any:
        messages: list[Any] = [None]
        dist.recv_object_list(messages, src=rank, group=self.group)
        return messages[0]

    def all_created(self) -> None:
        self.answered()

    def done(self) -> None:
        """A worker's answer: what it was told is done, on its device, too."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.send(DONE, 0)

    def answered(self) -> None:
        """Each worker says that it has done what it was told."""
        if self.index:
            return self.done()
        for worker in self.workers:
            self.receive(worker)
        return None

    def run(self, operands: list[Tensor]) -> Tensor:
        x, *weights = operands
        for layer, weight in zip(self.plan.layers, weights, strict=True):
            x = self.in_turns(x, weight, layer.weight_at_rest)
        return x if weights else self.elementwise(x)

    def elementwise(self, x: Tensor) -> Tensor:
        with region(COMPUTE):
            result = x.relu() * 2
        with region(COMMUNICATE):
            self.answered()
        return result

    def in_turns(self, x: Tensor, weight: Tensor, layout: str) -> Tensor:
        """A product: the weight comes whole from the dispatcher, which waits for the answer."""
        whole = self.whole_weight(weight, layout)
        with region(COMPUTE):
            result = self.activated(x @ whole)
        with region(COMMUNICATE):
            if self.index:
                self.done()
                return result
            message = whole.cpu()
            for worker in self.workers:
                if layout == ROWS:
                    self.send(message, worker)
                self.receive(worker)
        return result

    def whole_weight(self, weight: Tensor, layout: str) -> Tensor:
        """The weight as a whole: gathered on the dispatcher, received from it elsewhere."""
        if layout == WHOLE:
            return weight
        with region(COMMUNICATE):
            whole = self.gathered(weight)
            return (self.receive(0) if whole is None else whole).to(self.device)

    def gathered(self, part: Tensor) -> Tensor | None:
        """All ranks' parts, one below the other, on the dispatcher; None elsewhere."""
        if self.index:
            self.send(part.cpu(), 0)
            return None
        return torch.cat([part.cpu(), *(self.receive(worker) for worker in self.workers)])

    def fetch(self, output: Tensor) -> Tensor | None:
        if self.plan.layout == WHOLE:
            return None if self.index else output.cpu()
        return self.gathered(output)
