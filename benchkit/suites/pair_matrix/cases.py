"""A case per round, direction and size, in which each pair passes a message; then nested groups."""

from collections.abc import Iterator

from benchkit.api.case import Case, Rank, Work, noop
from benchkit.api.groups import MeasureConfig
from benchkit.suites.pair_matrix.config import MINUTES_SHARE, PairMatrixConfig
from benchkit.suites.pair_matrix.groups import group_cases
from benchkit.suites.pair_matrix.messages import Answer, Buffers, Check, Send, allocate
from benchkit.suites.pair_matrix.names import (
    ASCENDING,
    DESCENDING,
    DIRECTION,
    IDLE,
    ROUND,
    SENDS_TO,
)
from benchkit.suites.pair_matrix.schedule import Ints, Schedule, sends_to

FILL_S = 0.002
"""Length of a sample of short messages; one that takes as long is timed alone."""
MOST_SAMPLES = 2**24
"""Samples of all rounds and ranks; the record of more exceeds what analysis reads."""
AROUND_S = 0.002
"""Seconds around a sample for the barrier and the exchange of samples, roughly."""


def cases_of(config: PairMatrixConfig, rank: Rank) -> list[Case]:
    """Returns the cases of all rounds that fit in the time, and those of nested groups."""
    if rank.world_size == 1:
        return [Case(unavailable="a pair needs two ranks")]
    sizes = [max(1, round(size * 2**20)) for size in config.sizes]
    if shortage := rank.memory_shortage(config.needed_bytes(rank.world_size)):
        return [Case(skip=shortage)]
    buffers = [allocate(size, rank.device) for size in sizes]
    schedule = Schedule(rank.hosts)
    chosen = schedule.chosen(affordable(config, rank, schedule, buffers), rank.seed)
    cases = [
        case
        for number in chosen
        for direction in (ASCENDING, DESCENDING)
        for case in round_cases(config, rank, buffers, number, schedule.peers(number), direction)
    ]
    return cases + group_cases(config, rank, max(sizes))


def affordable(
    config: PairMatrixConfig, rank: Rank, schedule: Schedule, buffers: list[Buffers]
) -> int:
    """Returns how many rounds fit in this point's time, at least one; all ranks call this together.

    A round with most pairs is timed, which is across nodes where there are several.
    """
    target = sends_to(schedule.peers(schedule.fullest), ascending=True)
    steps = [step_of(rank.index, target, held) or noop for held in buffers]
    seconds = [max(row) for row in rank.seconds_of(*steps, turns=1)]
    of_round = 2 * sum(seconds_of_case(max(FILL_S, each), config.measure) for each in seconds)
    stored = 2 * len(buffers) * rank.world_size * config.measure.max_iterations
    return max(1, min(int(60 * MINUTES_SHARE * config.minutes / of_round), MOST_SAMPLES // stored))


def seconds_of_case(sample_s: float, measure: MeasureConfig) -> float:
    """Returns the time of a case with its warm-up and both checks, by that of a sample."""
    turn_s = sample_s + AROUND_S
    samples_s = min(measure.max_iterations * turn_s, measure.max_seconds)
    return samples_s + (measure.warmup_iterations + 2) * turn_s


def step_of(rank: int, target: Ints, buffers: Buffers) -> Send | Answer | None:
    """Returns what a rank does in one direction of a round; None where it is idle."""
    if target[rank] != IDLE:
        return Send(buffers, int(target[rank]))
    senders = (target == rank).nonzero()[0]
    return Answer(buffers, int(senders[0])) if len(senders) else None


def round_cases(
    config: PairMatrixConfig,
    rank: Rank,
    buffers: list[Buffers],
    number: int,
    peers: Ints,
    direction: str,
) -> Iterator[Case]:
    """Yields the case of each size: every sender's sample is the time of its own pair."""
    target = sends_to(peers, direction == ASCENDING)
    details = {SENDS_TO: target.tolist()}
    for size, held in zip(config.sizes, buffers, strict=True):
        step = step_of(rank.index, target, held)
        num_bytes = held.sent.numel() * held.sent.itemsize
        yield Case(
            step=step or noop,
            labels={ROUND: number, DIRECTION: direction, "data_size": size},
            verify=Check(step, rank.index, rank.world_size, rank.seed) if step else noop,
            work=Work(payload_bytes=num_bytes, bus_factor=1.0),
            fill_seconds=0.0 if config.measure.mode == "loop" else FILL_S,
            details=lambda: details,
        )
