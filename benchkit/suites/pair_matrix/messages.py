"""A message from one rank of a pair to the other, and the short answer that confirms it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import torch

from benchkit.api import p2p, verification
from benchkit.api.case import Call
from benchkit.errors import InvalidResult

DTYPE = torch.int32
ANSWER_ELEMENTS = 1
POISON = -77


@dataclass(frozen=True)
class Buffers:
    """What a rank sends and receives; all rounds of one size share them.

    Attributes:
        sent, received: the message: [elements].
        answer: what follows a message that has arrived: [ANSWER_ELEMENTS].
    """

    sent: torch.Tensor
    received: torch.Tensor
    answer: torch.Tensor


def allocate(num_bytes: int, device: torch.device) -> Buffers:
    """Allocates the buffers of one size, rounded up to whole elements."""
    elements = -(-num_bytes // DTYPE.itemsize)
    shapes = (elements, elements, ANSWER_ELEMENTS)
    return Buffers(*(torch.zeros(shape, dtype=DTYPE, device=device) for shape in shapes))


def finish(started: p2p.StartedTransfers) -> None:
    """Waits for all transfers."""
    sending, receiving = started
    for transfer in (*sending, *receiving):
        transfer.wait()


@dataclass(frozen=True)
class Send:
    """Sends the message and waits for the answer: the time of the pair, by one clock."""

    buffers: Buffers
    peer: int

    def __call__(self) -> None:
        message, answer = (self.buffers.sent, self.peer), (self.buffers.answer, self.peer)
        finish(p2p.start([message], [answer]))


@dataclass(frozen=True)
class Answer:
    """Waits for the message and answers it."""

    buffers: Buffers
    peer: int

    def __call__(self) -> None:
        finish(p2p.start([], [(self.buffers.received, self.peer)]))
        finish(p2p.start([(self.buffers.answer, self.peer)], []))


@dataclass
class Check:
    """Sends new values each time and compares every element of what arrives."""

    step: Send | Answer
    rank: int
    world_size: int
    seed: int
    turns: Iterator[int] = field(default_factory=count)

    def __call__(self, call: Call) -> None:
        turn = next(self.turns)
        buffers, answers = self.step.buffers, isinstance(self.step, Answer)
        sender, receiver = (self.step.peer, self.rank) if answers else (self.rank, self.step.peer)
        message = self.values(buffers.sent, turn, sender)
        answer = self.values(buffers.answer, turn, receiver)
        if answers:
            buffers.answer.copy_(answer)
        else:
            verification.tile(buffers.sent, message)
        call(lambda: (buffers.received if answers else buffers.answer).fill_(POISON))
        arrived, expected = (buffers.received, message) if answers else (buffers.answer, answer)
        try:
            verification.require_tiled(arrived, expected)
        except InvalidResult as error:
            raise InvalidResult(f"from rank {self.step.peer}: {error}") from None

    def values(self, buffer: torch.Tensor, turn: int, rank: int) -> torch.Tensor:
        """Returns one period of what a rank sends in a turn."""
        drawn = verification.pattern(
            seed=self.seed, turn=turn, rank=rank, world_size=self.world_size, dtype=DTYPE,
            op="max", length=len(buffer),
        )  # fmt: skip
        return drawn.to(buffer.device, DTYPE)
