"""What a first call costs, from samples in their order."""

import pytest

from tests.support.entries.report import describe
from tests.support.records import make_record, tabulate_records

TIMES = [1.2, 0.3, 0.15, 0.105, 0.1, 0.1, 0.1, 0.11]


def record_of(times, warmup_s=(), mode="cold"):
    record = make_record(world_size=1)
    record["config"]["measure"] = {"mode": mode, "calls_per_sample": 1, "warmup_iterations": 0}
    samples = {"samples_s": [times], "start_offsets_s": None, "blocks": [len(times)], "warmup_s": list(warmup_s)}
    record["cases"][0] |= samples
    return record


@pytest.mark.parametrize("changes", [{"warmup_s": [[1.0]]}, {"times": TIMES[:3]}, {"mode": "per_iteration"}])
def test_warm_or_few_calls_have_no_figures(changes):
    table = tabulate_records([record_of(**{"times": TIMES} | changes)])
    assert table[["first_call_s", "first_call_ratio", "warm_from_call"]].isna().all(axis=None)


def test_report_says_what_warming_up_changes(golden):
    cold, warm = (
        describe(tabulate_records([record_of(TIMES, mode=mode)])).split("\n\n") for mode in ("cold", "per_iteration")
    )
    golden("\n\n".join(part for part in cold if part not in warm))
    assert len(cold) > len(warm)
