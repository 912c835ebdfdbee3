"""Implementations of the columnwise product that overlap its communication and its computation."""

from collections.abc import Callable

from torch import Tensor

from benchkit.api.p2p import InFlight
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.tensor_parallel.buffers import Step, Work, chunks_of
from benchkit.suites.tensor_parallel.columnwise import Columnwise


def gather_in_chunks(job: Columnwise, chunks: int) -> Step:
    """AG_before with one chunk of every shard at a time.

    The next chunk is gathered while one is multiplied.
    """
    pieces = chunks_of(job.rows.most, chunks)
    size = job.rows.world_size
    stages = [job.new((piece.stop - piece.start) * size, job.a) for piece in pieces]

    def step() -> None:
        gathering = job.start_gather(stages[0], job.a[pieces[0]])
        for index, (piece, stage) in enumerate(zip(pieces, stages, strict=True)):
            with region(WAIT):
                gathering.wait()
            if index + 1 < len(pieces):
                gathering = job.start_gather(stages[index + 1], job.a[pieces[index + 1]])
            with region(COMPUTE):
                length = piece.stop - piece.start
                for rank in range(size):
                    job.multiply(stage[rank * length : (rank + 1) * length], rank, piece.start)

    return step


def multiply_in_chunks(job: Columnwise, chunks: int) -> Step:
    """AG_after with one chunk of the own rows at a time.

    One chunk of the product is gathered while the next is multiplied.
    """
    pieces = chunks_of(job.rows.most, chunks)
    size = job.rows.world_size
    stages = [job.new((piece.stop - piece.start) * size, job.c) for piece in pieces]
    local = job.new(job.rows.most, job.c)

    def settle(work: Work, piece: slice, stage: Tensor) -> None:
        with region(WAIT):
            work.wait()
        length = piece.stop - piece.start
        for rank in range(size):
            target = job.place(rank, piece.start, length)
            target.copy_(stage[rank * length : rank * length + len(target)])

    def step() -> None:
        gathering: list[tuple[Work, slice, Tensor]] = []
        for piece, stage in zip(pieces, stages, strict=True):
            with region(COMPUTE):
                job.matmul(job.a[piece], job.b, local[piece])
            gathering.append((job.start_gather(stage, local[piece]), piece, stage))
            if len(gathering) > 1:
                settle(*gathering.pop(0))
        settle(*gathering.pop())

    return step


def shards_round_the_ring(
    job: Columnwise, chunks: int, multiply: Callable[..., object] | None = None
) -> Step:
    """AG_before, peer to peer: shards of A go round the ring in chunks.

    Each rank multiplies its own shard first, and then the shards in the order of their arrival.

    Args:
        job: the buffers.
        chunks: pieces of a shard that are sent separately.
        multiply: called instead of the product with rows of A, their owner and the first row.
    """
    size, rank = job.rows.world_size, job.rank
    pieces = chunks_of(job.rows.most, chunks)
    spare = [job.new(job.rows.most, job.a) for _ in range(2)]
    after, before = (rank + 1) % size, (rank - 1) % size
    multiply = multiply or job.multiply

    def step() -> None:
        held, in_flight = job.a, InFlight(len(pieces))
        for turn in range(size):
            incoming = spare[turn % 2]
            for index, piece in enumerate(pieces):
                in_flight.wait(index)
                if turn + 1 < size:
                    sends = [(held[piece], after)]
                    receives = [(incoming[piece], before)]
                    in_flight.start(index, sends, receives, job.group)
                with region(COMPUTE):
                    multiply(held[piece], (rank - turn) % size, piece.start)
            held = incoming

    return step


def rows_to_all_peers(
    job: Columnwise, chunks: int, multiply: Callable[..., object] | None = None
) -> Step:
    """AG_after, peer to peer: each rank sends its rows of C straight to their place on all peers.

    One chunk is sent while the next is computed.

    Args:
        job: the buffers.
        chunks: pieces of the own rows that are sent separately.
        multiply: called instead of the product with rows of A and their place in C.
    """

    def product(rows: Tensor, own: Tensor) -> None:
        job.matmul(rows, job.b, own)

    multiply = multiply or product
    size, rank = job.rows.world_size, job.rank
    peers = [(rank + 1 + i) % size for i in range(size - 1)]  # every rank begins with its neighbour
    plan = []
    for piece in chunks_of(job.rows.most, chunks):
        length = piece.stop - piece.start
        own = job.place(rank, piece.start, length)
        sends = [(own, peer) for peer in peers if len(own)]
        places = [(job.place(peer, piece.start, length), peer) for peer in peers]
        receives = [(rows, peer) for rows, peer in places if len(rows)]
        plan.append((job.a[piece][: len(own)], own, sends, receives))

    def step() -> None:
        in_flight = InFlight(len(plan))
        for index, (rows, own, sends, receives) in enumerate(plan):
            with region(COMPUTE):
                if len(own):
                    multiply(rows, own)
            in_flight.start(index, sends, receives, job.group)
        for index in range(len(plan)):
            in_flight.wait(index)

    return step
