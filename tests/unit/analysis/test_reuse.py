"""What a report says of ranks that stayed from point to point."""

import pytest
from analysis.report.reuse import describe

from tests.support.records import make_record, tabulate_records

MIB = 2**20


def table(ratios, growth_bytes=0):
    """Points of one run of ranks, with the time of each as a multiple of that in fresh ranks."""
    records = []
    for number, ratio in enumerate(ratios):
        record = make_record(seconds=(ratio or 1.0) * 1e-3, point_id=f"point {number}")
        record["started_at"] = f"2026-01-01T00:00:{number:02}.000+00:00"
        held = 200 * MIB + number * growth_bytes
        record["rank_use"] = {"points_before": number, "host_bytes": [held], "device_bytes": [0]}
        record["fresh"] = make_record(seconds=1e-3)["cases"] if ratio else []
        records.append(record | {"run": "run"})
    return tabulate_records(records)


def test_nothing_is_said_of_fresh_ranks():
    assert list(describe(table([None]))) == []


def test_few_pairs_have_no_interval():
    (line,) = describe(table([None, 1.5, None, 1.5]))
    assert line == (
        "allreduce: 3 points were measured by ranks that had measured others; they take 1.500 times as long as "
        "fresh ranks (2 pairs, too few for an interval)."
    )


@pytest.mark.parametrize(
    ("ratios", "meaning"),
    [
        ([1.02, 0.98, 1.01, 0.99, 1.03, 0.97, 1.0], "no change that shows"),
        ([0.5, 0.52, 0.49, 0.51, 0.5, 0.48, 0.53], "measure with ranks=fresh"),
    ],
)
def test_interval_over_pairs_decides(ratios, meaning):
    (line,) = describe(table([None, *ratios]))
    assert line.endswith(f"7 pairs): {meaning}.")


def test_unpaired_points_are_counted():
    (line,) = describe(table([None, None]))
    assert line.endswith("had measured others, none of them by fresh ranks, too.")


def test_growing_memory_is_a_leak():
    *_, line = describe(table([None, None, None], growth_bytes=3 * MIB))
    assert "ranks hold 3.0 MiB more with each point" in line
    assert len(list(describe(table([None, None, None], growth_bytes=MIB // 4)))) == 1
