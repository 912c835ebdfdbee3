"""Dump NCCL's flight recorder on a timeout: each rank's last collectives and their progress.

In each rank a thread of torch polls a named pipe once a second, and writes a dump when it reads a
byte (torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp, DumpPipe). `torchfrtrace` compares the dumps
of all ranks.
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
"""Number of collectives in a recorder: the default of torch 2.13; older ones default to 0."""
DUMP_S = 30.0
"""Time limit for the ranks to write their dumps.

With an H200 they took 5 s: torch resolves the symbols of the stacks.
"""
POLL_S = 0.05


@dataclass(frozen=True)
class FlightRecorder:
    """The flight recorders of the ranks of one agent.

    Pipes and dumps are on a local file system: a rank dies if it cannot make its pipe. Torch fixes
    both names at the first group, for all points of the ranks.
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
            # Without it the thread polls the pipe every eight minutes.
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        }

    def request_dumps(self, ranks: Sequence[int]) -> list[Path]:
        """Request the dumps of ranks; return the paths for those with a flight recorder."""
        dumps = []
        for rank in ranks:
            with suppress(OSError):  # no pipe, or nobody reads it: the rank has no NCCL
                pipe = os.open(self.folder / f"{STEM}{rank}.pipe", os.O_WRONLY | os.O_NONBLOCK)
                with open(pipe, "wb", buffering=0) as file:
                    file.write(b"1")
                dumps.append(self.folder / f"{STEM}{rank}")
        return dumps

    def wait_for(self, dumps: Sequence[Path]) -> None:
        deadline = time.monotonic() + DUMP_S
        sizes: list[int] = []
        while dumps and time.monotonic() < deadline:
            previous_sizes, sizes = sizes, [file_size(dump) for dump in dumps]
            if sizes == previous_sizes and all(sizes):
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
