"""Tests of a rank without communication, as cases that all ranks run at the same time."""

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchkit.api import verification
from benchkit.api.case import Call, Case, Rank, Work, noop
from benchkit.api.products import SquareProduct, matmul_here
from benchkit.errors import InvalidResult
from benchkit.suites.rank_speed.suite import (
    CACHE,
    COPY,
    DISK_READ,
    DISK_WRITE,
    DTYPE,
    FILLING,
    FLOPS,
    FROM_DEVICE,
    MATMUL,
    MINUTES_SHARE,
    MOVED_BYTES,
    TEST,
    TO_DEVICE,
    TRIAD,
    RankSpeedConfig,
)

DROPPED = "kernel asked to drop its cache before each read"
SYNCED = "written through by fsync"


class Disk:
    """An unnamed file of one size; its folder or the kernel may refuse it: OSError."""

    def __init__(self, folder: Path, name: str, content: bytes) -> None:
        path = folder / name
        self.content = memoryview(content)
        self.read_back = memoryview(bytearray(len(content)))
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        weakref.finalize(self, os.close, self.file)  # ranks may be reused for the next point
        path.unlink()
        self.write()

    def write(self) -> None:
        done = 0
        while done < len(self.content):
            done += os.pwrite(self.file, self.content[done:], done)
        os.fsync(self.file)

    def read(self) -> None:
        done = 0
        while done < len(self.read_back):
            count = os.preadv(self.file, [self.read_back[done:]], done)
            if not count:
                raise InvalidResult(f"the file ends after {done} of {len(self.read_back)} bytes")
            done += count

    def drop_cache(self) -> None:
        """Drop the file's pages from the kernel's cache, after fsync has written them."""
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)

    def check_write(self, call: Call) -> None:
        self.renew()
        call(lambda: os.pwrite(self.file, bytes(len(self.content)), 0))
        self.drop_cache()
        self.read_back[:] = bytes(len(self.read_back))
        self.read()
        self.compare()

    def check_read(self, call: Call) -> None:
        self.renew()
        self.write()
        self.drop_cache()

        def prepare() -> None:
            self.read_back[:] = bytes(len(self.read_back))

        call(prepare)
        self.compare()

    def renew(self) -> None:
        self.content = memoryview(bytes(self.content[1:]) + bytes(self.content[:1]))

    def compare(self) -> None:
        if self.read_back != self.content:
            both = zip(self.read_back, self.content, strict=True)
            first = next(index for index, (got, wrote) in enumerate(both) if got != wrote)
            raise InvalidResult(
                f"byte {first}: {self.read_back[first]}, wrote {self.content[first]}"
            )


ITEM = torch.float32
SAMPLE_S = 0.1
AROUND = 1.5
"""Time of a case with its checks and its warm-up, over that of its samples."""
SCALE = 2.0  # of the triad a = b + SCALE c (McCalpin, STREAM)


def cases_of(config: RankSpeedConfig, rank: Rank) -> list[Case]:
    """Return the cases of all tests; those beyond the point's time are skipped."""
    num_bytes = round(config.memory_size * 2**20)
    size = rank.world_size
    if shortage := rank.memory_shortage(config.needed_bytes(size), config.host_bytes(size)):
        return [Case(skip=shortage)]
    build: Mapping[str, Callable[[], Iterator[Case]]] = {
        MATMUL: lambda: (matmul(name, config, rank) for name in config.dtypes),
        COPY: partial(copies, COPY, num_bytes, rank),
        TRIAD: partial(triad, num_bytes, rank),
        TO_DEVICE: partial(copies, TO_DEVICE, num_bytes, rank),
        FROM_DEVICE: partial(copies, FROM_DEVICE, num_bytes, rank),
        DISK_WRITE: partial(disk, DISK_WRITE, config, rank),
        DISK_READ: partial(disk, DISK_READ, config, rank),
    }
    cases = [case for test in dict.fromkeys(config.tests) for case in build[test]()]
    longest_s = min(config.measure.max_seconds, config.measure.max_iterations * SAMPLE_S)
    fitting = int(60 * MINUTES_SHARE * config.minutes / (AROUND * longest_s))
    too_long = f"minutes={config.minutes:g} is too little for it"
    beyond = [case for case in cases if not case.unavailable][fitting:]
    return [Case(labels=case.labels, skip=too_long) if case in beyond else case for case in cases]


def case_of(
    test: str, step: Callable[[], object], verify: Callable[[Call], None], **details: Any
) -> Case:
    labels = {TEST: test}
    return Case(step, labels, verify=verify, calls=FILLING, details=lambda: details)


def matmul(dtype_name: str, config: RankSpeedConfig, rank: Rank) -> Case:
    kind = matmul_here(dtype_name, rank.device)
    product = SquareProduct(kind, config.matmul_size, rank.seed + rank.index)
    return Case(
        step=product.step,
        labels={TEST: MATMUL, DTYPE: dtype_name},
        verify=product.verify,
        work=Work(useful_flops=product.flops * rank.world_size),
        calls=FILLING,
        details=lambda: {FLOPS: product.flops},
    )


@dataclass
class Values:
    """Draws one period of small whole numbers, new ones each time."""

    rank: Rank
    length: int
    turn: int = 0

    def __call__(self, device: torch.device) -> torch.Tensor:
        self.turn += 1
        drawn = verification.pattern(
            seed=self.rank.seed, turn=self.turn, rank=self.rank.index,
            world_size=self.rank.world_size, dtype=ITEM, op=verification.PLAIN, length=self.length,
        )  # fmt: skip
        return drawn.to(device, ITEM)


def copies(test: str, num_bytes: int, rank: Rank) -> Iterator[Case]:
    if test != COPY and rank.device.type != "cuda":
        yield Case(labels={TEST: test}, unavailable="no device to copy to: the ranks use the CPU")
        return
    length = max(1, num_bytes // ITEM.itemsize)
    host = partial(torch.empty, length, dtype=ITEM, pin_memory=True)
    on_device = partial(torch.empty, length, dtype=ITEM, device=rank.device)
    source = host() if test == TO_DEVICE else on_device()
    target = host() if test == FROM_DEVICE else on_device()
    draw = Values(rank, length)
    step = partial(target.copy_, source, non_blocking=True)

    def verify(call: Call) -> None:
        values = draw(source.device)
        verification.tile(source, values)
        call(lambda: target.fill_(float("nan")))
        torch.get_device_module(rank.device).synchronize()
        verification.require_tiled(target, values.to(target.device))

    moved = (2 if test == COPY else 1) * length * ITEM.itemsize
    yield case_of(test, step, verify, **{MOVED_BYTES: moved})


def triad(num_bytes: int, rank: Rank) -> Iterator[Case]:
    """Yield a = b + SCALE c, which reads two buffers and writes one."""
    length = max(1, num_bytes // ITEM.itemsize)
    total, left, right = (torch.empty(length, dtype=ITEM, device=rank.device) for _ in range(3))
    draw = Values(rank, length)
    step = partial(torch.add, left, right, alpha=SCALE, out=total)

    def verify(call: Call) -> None:
        first, second = draw(rank.device), draw(rank.device)
        verification.tile(left, first)
        verification.tile(right, second)
        call(lambda: total.fill_(float("nan")))
        verification.require_tiled(total, first + SCALE * second)

    yield case_of(TRIAD, step, verify, **{MOVED_BYTES: 3 * length * ITEM.itemsize})


def disk(test: str, config: RankSpeedConfig, rank: Rank) -> Iterator[Case]:
    length = max(1, round(config.disk_size * 2**20))
    generator = torch.Generator().manual_seed(rank.seed + rank.index)
    content = torch.randint(256, (length,), dtype=torch.uint8, generator=generator)
    name = f"{test}_of_rank_{rank.index}"
    try:
        file = Disk(rank.folder, name, content.numpy().tobytes())
        file.drop_cache()
    except OSError as error:
        reason = f"{rank.folder}: {error.strerror}"
        yield Case(labels={TEST: test}, unavailable=reason)
        return
    is_read = test == DISK_READ
    yield Case(
        step=file.read if is_read else file.write,
        labels={TEST: test},
        reset=file.drop_cache if is_read else noop,
        verify=file.check_read if is_read else file.check_write,
        details=lambda: {MOVED_BYTES: length, CACHE: DROPPED if is_read else SYNCED},
        on_host=True,
    )
