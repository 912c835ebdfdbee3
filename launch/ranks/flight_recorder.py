"""Dumps NCCL's flight recorder at a time-out: each rank's last collectives and how far they came.

In each rank a thread of torch looks at a named pipe once a second, and writes a dump when it finds
a byte there (torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp, DumpPipe). `torchfrtrace` compares
the dumps of all ranks.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

STEM = "nccl_trace_rank_"
ENTRIES = "2000"
"""How many collectives a rank remembers: the default of torch 2.13, which older ones set to 0."""
DUMP_S = 30.0
"""Seconds that the ranks may take to notice the request and to write their dumps.

Beside an H200 they took 5: torch reads the symbols of the stacks in them.
"""
POLL_S = 0.05


@dataclass(frozen=True)
class FlightRecorder:
    """The flight recorders of the ranks of one agent.

    The pipes and dumps are on a local file system: where no pipe can be made a rank dies. Torch
    fixes
    both names once, but the ranks may run several points.
    """

    folder: Path

    def environment(self) -> dict[str, str]:
        stem = str(self.folder.absolute() / STEM)
        return {
            "TORCH_NCCL_TRACE_BUFFER_SIZE": ENTRIES,
            "TORCH_FR_BUFFER_SIZE": ENTRIES,
            "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": stem,
            "TORCH_FR_DUMP_TEMP_FILE": stem,
            "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": stem,
            # Without it the thread looks at the pipe every eight minutes.
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        }

    def request_dumps(self, ranks: Sequence[int]) -> list[Path]:
        """Ask ranks for their dumps; return the dumps of those that have a flight recorder."""
        asked = []
        for rank in ranks:
            with suppress(OSError):  # no pipe, or no process has it open: the rank has no NCCL
                pipe = os.open(self.folder / f"{STEM}{rank}.pipe", os.O_WRONLY | os.O_NONBLOCK)
                with open(pipe, "wb", buffering=0) as file:
                    file.write(b"1")
                asked.append(self.folder / f"{STEM}{rank}")
        return asked

    def wait_for(self, dumps: Sequence[Path]) -> None:
        deadline = time.monotonic() + DUMP_S
        sizes: list[int] = []
        while dumps and time.monotonic() < deadline:
            before, sizes = sizes, [file_size(dump) for dump in dumps]
            if sizes == before and all(sizes):
                return
            time.sleep(POLL_S)

    def move_dumps(self, folder: Path) -> None:
        for dump in self.folder.glob(f"{STEM}*"):
            if not dump.is_fifo():
                with suppress(OSError):  # a full disk, which the agent reports
                    shutil.move(dump, folder / dump.name)


def file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextmanager
def open_flight_recorder(needed: bool) -> Iterator[FlightRecorder | None]:
    if not needed:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="benchkit-pipes-") as folder:
        yield FlightRecorder(Path(folder))
