"""Finds records of an acceptance whose labels and details do not say what was measured."""

from typing import Annotated

import msgspec
from msgspec import Meta

from analysis.suites.pair_matrix import matrix
from analysis.suites.rank_speed.speeds import peaks_of
from benchkit.record.case import CaseRecord
from benchkit.record.record import Record
from benchkit.suites.pair_matrix.names import IDLE, ROUND
from benchkit.suites.rank_speed.names import FLOPS

Amount = Annotated[float, Meta(gt=0, le=1e30)]


class RoundLabels(msgspec.Struct):
    """Labels of a round of pair_matrix."""

    data_size: float


class RoundDetails(msgspec.Struct):
    """Details of a round of pair_matrix."""

    sends_to: list[Annotated[int, Meta(ge=IDLE)]]


class SpeedLabels(msgspec.Struct):
    """Labels of a test of rank_speed."""

    test: str
    dtype: str | None = None


class ComputeDetails(msgspec.Struct):
    """Details of a test of rank_speed that computes."""

    flops_per_rank: Amount


class MoveDetails(msgspec.Struct):
    """Details of a test of rank_speed that moves bytes."""

    moved_bytes: Amount


def flaw_of(record: Record) -> str:
    """Return why a record of pair_matrix or rank_speed cannot be judged; "" where it can."""
    is_pairs = record.suite == matrix.SUITE
    try:
        msgspec.convert(peaks_of(record), dict[str, dict[str, Amount]])
    except ValueError as error:
        return f"hardware.peak_tflop_per_s: {error}"
    for case in record.cases:
        if not case.samples_s or (is_pairs and ROUND not in case.labels):
            continue
        try:
            (check_round if is_pairs else check_test)(case)
        except ValueError as error:
            return f"case {case.labels}: {error}"
    return ""


def check_round(case: CaseRecord) -> None:
    """Raise ValueError for a round of pair_matrix that does not say which rank sends to which."""
    msgspec.convert(case.labels, RoundLabels)
    receivers = msgspec.convert(case.details, RoundDetails).sends_to
    ranks = len(case.samples_s)
    if len(receivers) != ranks:
        raise ValueError(
            f"`sends_to` has {len(receivers)} entries; allowed is one per rank: {ranks}"
        )
    if (last := max(receivers)) >= ranks:
        raise ValueError(f"`sends_to` has rank {last}; allowed are ranks below {ranks}")


def check_test(case: CaseRecord) -> None:
    """Raise ValueError for a test of rank_speed that does not say what it computes or moves."""
    msgspec.convert(case.labels, SpeedLabels)
    msgspec.convert(case.details, ComputeDetails if FLOPS in case.details else MoveDetails)
