"""A case per round, direction and size, in which each pair passes a message; then nested groups."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise

import torch
import torch.distributed as dist

from benchkit.api import p2p, verification
from benchkit.api.case import CHECK_SHARE, Call, Case, Rank, Work, noop
from benchkit.api.keys import MeasureConfig
from benchkit.errors import InvalidResult
from benchkit.suites.pair_matrix.schedule import Ints, Schedule, group_by_label, sends_to
from benchkit.suites.pair_matrix.suite import (
    ALL,
    ASCENDING,
    BOTH,
    DIRECTION,
    FILL_S,
    GROUP,
    GROUP_OF,
    HALVES,
    IDLE,
    MINUTES_SHARE,
    NODES,
    PAIRS,
    ROUND,
    SENDS_TO,
    PairMatrixConfig,
)

LEVELS = (PAIRS, NODES, HALVES, ALL)


def groups_at(level: str, hosts: Sequence[str]) -> list[list[int]]:
    """Return the ranks of each group of a level; ranks of one node are neighbours in it.

    A last rank without a partner belongs to the last pair.
    """
    by_node = [rank for ranks in group_by_label(hosts) for rank in ranks]
    if level == NODES:
        return group_by_label(hosts)
    count = {PAIRS: max(1, len(by_node) // 2), HALVES: 2, ALL: 1}[level]
    bounds = [len(by_node) * number // count for number in range(count + 1)]
    if level == PAIRS:
        bounds = [2 * number for number in range(count)] + [len(by_node)]
    return [by_node[low:high] for low, high in pairwise(bounds)]


def group_cases(config: PairMatrixConfig, rank: Rank, num_bytes: int) -> list[Case]:
    """Return a case per level that differs from the levels below it; all ranks call it together.

    A level whose groups are single ranks communicates nothing and has no case.
    """
    cases: list[Case] = []
    seen: list[list[list[int]]] = []
    for level in (level for level in LEVELS if level in config.groups):
        groups = groups_at(level, rank.hosts)
        if groups in seen or max(map(len, groups)) == 1:
            continue
        seen.append(groups)
        cases.append(group_case(level, groups, rank, num_bytes))
    return cases


def group_case(level: str, groups: list[list[int]], rank: Rank, num_bytes: int) -> Case:
    handles = [rank.subgroup(members) for members in groups]
    number = next(index for index, ranks in enumerate(groups) if rank.index in ranks)
    buffer = torch.zeros(max(1, num_bytes // 4), dtype=torch.float32, device=rank.device)
    group_of = {member: index for index, ranks in enumerate(groups) for member in ranks}
    members = groups[number]
    step = partial(dist.all_reduce, buffer, group=handles[number])
    turns = count(number, len(groups))

    def verify(call: Call) -> None:
        drawn = {
            "seed": rank.seed, "turn": next(turns), "world_size": len(members),
            "dtype": buffer.dtype, "op": "sum", "length": len(buffer),
        }  # fmt: skip
        mine = verification.pattern(**drawn, rank=members.index(rank.index)).to(buffer)
        call(lambda: verification.tile(buffer, mine))
        verification.require_tiled(buffer, verification.expected_reduction(**drawn).to(buffer))
        buffer.zero_()  # sums of zeros keep their size

    details = {GROUP_OF: [group_of[member] for member in range(rank.world_size)]}
    return Case(
        step=step if len(members) > 1 else noop,
        labels={GROUP: level, "data_size": num_bytes / 2**20},
        verify=verify,
        work=Work(payload_bytes=buffer.numel() * buffer.itemsize),
        details=lambda: details,
    )


DTYPE = torch.int32
ANSWER_ELEMENTS = 1


@dataclass(frozen=True)
class MessageBuffers:
    sent: torch.Tensor
    received: torch.Tensor
    answer: torch.Tensor


def allocate(num_bytes: int, device: torch.device) -> MessageBuffers:
    elements = -(-num_bytes // DTYPE.itemsize)
    shapes = (elements, elements, ANSWER_ELEMENTS)
    return MessageBuffers(*(torch.zeros(shape, dtype=DTYPE, device=device) for shape in shapes))


@dataclass(frozen=True)
class Send:
    """Send the message and wait for the answer: the time of the pair, by one clock."""

    buffers: MessageBuffers
    peer: int

    def __call__(self) -> None:
        message, answer = (self.buffers.sent, self.peer), (self.buffers.answer, self.peer)
        p2p.start_transfers([message], [answer]).wait()


@dataclass(frozen=True)
class Answer:
    buffers: MessageBuffers
    peer: int

    def __call__(self) -> None:
        p2p.start_transfers([], [(self.buffers.received, self.peer)]).wait()
        p2p.start_transfers([(self.buffers.answer, self.peer)], []).wait()


@dataclass(frozen=True)
class Exchange:
    """Send the message while one of the same size arrives."""

    buffers: MessageBuffers
    peer: int

    def __call__(self) -> None:
        sent, received = (self.buffers.sent, self.peer), (self.buffers.received, self.peer)
        p2p.start_transfers([sent], [received]).wait()


Step = Send | Answer | Exchange


@dataclass
class MessageCheck:
    """Check the message that arrives, or its answer at the rank that sends it one way."""

    step: Step
    rank: int
    world_size: int
    seed: int
    turns: Iterator[int] = field(default_factory=count)

    def __call__(self, call: Call) -> None:
        turn = next(self.turns)
        buffers, step = self.step.buffers, self.step
        leaves = buffers.answer if isinstance(step, Answer) else buffers.sent
        arrives = buffers.answer if isinstance(step, Send) else buffers.received
        verification.tile(leaves, self.values(leaves, turn, self.rank))
        call(lambda: arrives.fill_(verification.POISON))
        try:
            verification.require_tiled(arrives, self.values(arrives, turn, step.peer))
        except InvalidResult as error:
            raise InvalidResult(f"from rank {step.peer}: {error}") from None

    def values(self, buffer: torch.Tensor, turn: int, rank: int) -> torch.Tensor:
        drawn = verification.pattern(
            seed=self.seed, turn=turn, rank=rank, world_size=self.world_size, dtype=DTYPE,
            op=verification.PLAIN, length=len(buffer),
        )  # fmt: skip
        return drawn.to(buffer.device, DTYPE)


MOST_SAMPLES = 2**24
"""Limit of the samples of all rounds and ranks: analysis reads no larger record."""
AROUND_S = 0.002
"""Seconds around a sample for the barrier and the all-gather of samples, roughly."""


def cases_of(config: PairMatrixConfig, rank: Rank) -> list[Case]:
    if rank.world_size == 1:
        return [Case(unavailable="a pair needs two ranks")]
    sizes = [max(1, round(size * 2**20)) for size in config.sizes]
    if shortage := rank.memory_shortage(config.needed_bytes(rank.world_size)):
        return [Case(skip=shortage)]
    buffers = [allocate(size, rank.device) for size in sizes]
    schedule = Schedule(rank.hosts)
    chosen = schedule.choose_rounds(num_affordable(config, rank, schedule, buffers), rank.seed)
    cases = [
        case
        for number in chosen
        for direction in config.directions
        for case in round_cases(config, rank, buffers, number, schedule.peers(number), direction)
    ]
    return cases + group_cases(config, rank, max(sizes))


def num_affordable(
    config: PairMatrixConfig, rank: Rank, schedule: Schedule, buffers: list[MessageBuffers]
) -> int:
    """Return how many rounds fit in this point's time, by the time of the fullest one."""
    targets = [targets_of(schedule.peers(schedule.fullest), way) for way in config.directions]
    steps = [
        step_of(rank.index, target, buffer) or noop for target in targets for buffer in buffers
    ]
    seconds = [max(row) for row in rank.seconds_of(*steps, turns=1)]
    of_round = sum(seconds_of_case(max(FILL_S, call_s), config.measure) for call_s in seconds)
    stored = len(steps) * rank.world_size * config.measure.max_iterations
    return max(1, min(int(60 * MINUTES_SHARE * config.minutes / of_round), MOST_SAMPLES // stored))


def seconds_of_case(sample_s: float, measure: MeasureConfig) -> float:
    turn_s = sample_s + AROUND_S
    samples_s = min(measure.max_iterations * turn_s, measure.max_seconds)
    return (1 + CHECK_SHARE) * samples_s + (measure.warmup_iterations + 2) * turn_s


def targets_of(peers: Ints, direction: str) -> Ints:
    return peers if direction == BOTH else sends_to(peers, direction == ASCENDING)


def step_of(rank: int, target: Ints, buffers: MessageBuffers) -> Step | None:
    """Return what a rank does in one direction of a round; None where it is idle."""
    if target[rank] != IDLE and target[target[rank]] == rank:
        return Exchange(buffers, int(target[rank]))
    if target[rank] != IDLE:
        return Send(buffers, int(target[rank]))
    senders = (target == rank).nonzero()[0]
    return Answer(buffers, int(senders[0])) if len(senders) else None


def round_cases(
    config: PairMatrixConfig,
    rank: Rank,
    buffers: list[MessageBuffers],
    number: int,
    peers: Ints,
    direction: str,
) -> Iterator[Case]:
    """Yield the case of each size: every sender's sample is the time of its own pair."""
    target = targets_of(peers, direction)
    details = {SENDS_TO: target.tolist()}
    for size, pair_buffers in zip(config.sizes, buffers, strict=True):
        step = step_of(rank.index, target, pair_buffers)
        num_bytes = pair_buffers.sent.numel() * pair_buffers.sent.itemsize
        yield Case(
            step=step or noop,
            labels={ROUND: number, DIRECTION: direction, "data_size": size},
            verify=MessageCheck(step, rank.index, rank.world_size, rank.seed) if step else noop,
            work=Work(payload_bytes=num_bytes, bus_factor=1.0),
            calls=config.calls(),
            details=lambda: details,
        )
