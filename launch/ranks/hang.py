"""Finds out, when time is up, where each rank is and which of them holds up the others."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from launch.ranks.failure import Failure
from launch.ranks.flight_recorder import FlightRecorder
from launch.ranks.logs import log_file
from launch.ranks.stack_dump import STACK_SIGNAL, Frame, innermost_frame

STACK_DUMP_S = 0.3


def timed_out(
    pids: Mapping[int, int], folder: Path, timeout_s: float, recorder: FlightRecorder | None
) -> Failure:
    """Returns a failure that names the only rank that hangs outside a collective, if there is one.

    A rank hangs if its frame is the same in two stack dumps. Meanwhile the ranks with a flight
    recorder write it to the folder.

    Args:
        pids: process number of each rank that runs.
        folder: of the ranks' logs.
        timeout_s: the limit that has passed, in seconds.
        recorder: asks ranks for the dumps of their flight recorders.
    """
    dumps = recorder.request(list(pids)) if recorder else []
    earlier = ask_for_frames(pids, folder)
    frames = ask_for_frames(pids, folder)
    if recorder:
        recorder.wait_for(dumps)
    stuck = [index for index, frame in frames.items() if frame == earlier[index]]
    culprits = [index for index in stuck if not frames[index].waiting]
    places = ", ".join(f"rank {index} in {frame.place}" for index, frame in frames.items())
    return Failure(
        rank=culprits[0] if len(culprits) == 1 else None,
        kind="timeout",
        message=f"no end within {timeout_s:g} s: {places}",
        traceback="\n".join(f"rank {index}:\n{frame.stack}" for index, frame in frames.items()),
    )


def ask_for_frames(pids: Mapping[int, int], folder: Path) -> dict[int, Frame]:
    """Returns the innermost frame of each rank now."""
    for pid in pids.values():
        with suppress(ProcessLookupError):
            os.kill(pid, STACK_SIGNAL)
    time.sleep(STACK_DUMP_S)
    return {index: innermost_frame(log_file(folder, index)) for index in pids}
