"""What ranks that stayed from an earlier point take for a case, beside what fresh ranks take."""

from analysis.records.turns import median_within
from benchkit.record.case import CaseRecord
from benchkit.record.record import Record

FIGURES = ("fresh_s", "reuse_ratio")


def figures(case: CaseRecord, record: Record, median_s: float | None) -> dict[str, float | None]:
    """Compute how much the earlier points of its ranks changed a case.

    Args:
        case: of the record.
        record: of the point.
        median_s: of the case.

    Returns:
        fresh_s: median time in fresh ranks; None where it was not measured in fresh ones, too.
        reuse_ratio: the median as a multiple of that; above 1 where it takes longer in ranks that
            have measured other points.
    """
    fresh_s = median_within(record.fresh, case)
    return {"fresh_s": fresh_s, "reuse_ratio": median_s and fresh_s and median_s / fresh_s}


def held_bytes(record: Record) -> int | None:
    """Return the memory that all ranks held when the point began, on hosts and GPUs together.

    None where the ranks report none.
    """
    use = record.rank_use
    return sum(use.host_bytes) + sum(use.device_bytes) if use else None
