"""Sentences of a report on clocks and on ranks that stayed."""

from tests.support.records import make_record, tabulate_records
from tests.support.reports import describe

MIB = 2**20


def paragraph(text, title):
    [found] = [part for part in text.split("\n\n") if part.startswith(f"{title}\n")]
    return found


def test_rough_clocks_are_named(golden):
    told = {"estimator": "min_rtt_line", "uncertainty_s": 2e-4}
    golden(paragraph(describe(tabulate_records([make_record(start_clock=told)])), "Clocks"))


def stayed(ratios, growth_bytes=0, suite="allreduce"):
    """Points of one run of ranks, with the time of each as a multiple of that in fresh ranks."""
    records = []
    for number, ratio in enumerate(ratios):
        record = make_record(seconds=(ratio or 1.0) * 1e-3, point_id=f"point {number}", suite=suite)
        record["started_at"] = f"2026-01-01T00:00:{number:02}.000+00:00"
        held = 200 * MIB + number * growth_bytes
        record["rank_use"] = {"points_before": number, "host_bytes": [held], "device_bytes": [0]}
        record["fresh"] = make_record(seconds=1e-3)["cases"] if ratio else []
        records.append(record | {"run": suite})
    return records


def test_nothing_is_said_of_fresh_ranks_and_little_memory():
    assert "Ranks that stayed" not in describe(tabulate_records(stayed([None])))
    assert paragraph(describe(tabulate_records(stayed([None] * 3, MIB // 4))), "Ranks that stayed").count("\n") == 1


def test_ranks_that_stayed_are_compared_with_fresh_ones(golden):
    records = stayed([None, 1.5, None, 1.5], suite="few pairs")
    records += stayed([None, None], suite="no pair")
    records += stayed([None, 1.02, 0.98, 1.01, 0.99, 1.03, 0.97, 1.0], suite="alike")
    records += stayed([None, 0.5, 0.52, 0.49, 0.51, 0.5, 0.48, 0.53], suite="faster")
    records += stayed([None] * 3, 3 * MIB, suite="leaking")
    golden(paragraph(describe(tabulate_records(records)), "Ranks that stayed"))
