"""Figures that cannot be are told as such, with their likely cause."""

import pytest
from analysis.records.doubts import doubt_of
from benchkit.api.case import MEASURED_PEAK

from tests.support.entries.report import describe
from tests.support.records import grid, make_record, tabulate_records

OVERLAP = {"overlap": 1.4, "overlap_low": None, "overlap_high": None}
IMPOSSIBLE = (
    {"mfu_full": 1.001}, {"mfu_full": 1.2, "hfu_full": 1.5}, {"efficiency": 1.24}, {"limit_share": 1.1},
    {"overlap": -9.89, "overlap_low": -11.0, "overlap_high": -8.0}, OVERLAP | {"overlap_low": 1.2}, OVERLAP,
    {"rel_ci": 5.79},
)  # fmt: skip


def test_impossible_figure_names_cause(golden):
    told = [doubt_of(figures, {"peak_from": MEASURED_PEAK}) for figures in IMPOSSIBLE]
    assert all(told)
    golden("\n".join([*told, doubt_of({"mfu_full": 1.1}, {"peak_from": "data sheet of X"})]))


@pytest.mark.parametrize(
    "figures",
    [
        {},
        {"mfu_full": 1.0, "efficiency": 1 + 1e-12, "limit_share": None, "rel_ci": 0.9},
        {"overlap": 1.06, "overlap_low": 0.8, "overlap_high": 1.2},
        {"overlap": -1.5, "overlap_low": -3.0, "overlap_high": 0.5},
    ],
)
def test_plausible_figure_has_no_doubt(figures):
    assert doubt_of(figures, {}) is None


def test_doubts_are_in_table_and_text():
    record = make_record(7.0)
    record["cases"][0]["details"] = {"ideal_s": 1.24e-3}
    table = tabulate_records([*grid(), record])
    assert table["doubt"].notna().tolist() == [False] * 6 + [True]
    assert "- allreduce (world_size=2, data_size=7 MiB): efficiency 124 %" in describe(table)
    assert "Doubtful" not in describe(tabulate_records(grid()))
