"""Figures that cannot be are told as such, with their likely cause."""

import pytest
from analysis.records.doubts import doubt_of
from analysis.report import sentences
from analysis.table import as_markdown
from benchkit.api.details import MEASURED_PEAK

from tests.support.records import grid, make_record, tabulate_records


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"mfu_full": 1.001}, "mfu_full 100.1 %: the peak was measured beside it, on a busy machine"),
        ({"mfu_full": 1.2, "hfu_full": 1.5}, "mfu_full 120 %, hfu_full 150 %: the peak was"),
        ({"efficiency": 1.24}, "efficiency 124 %: the probe saw a slower machine than the measurement"),
        ({"limit_share": 1.1}, "limit_share 110 %: a part alone took longer than the whole"),
        ({"overlap": -9.89, "overlap_low": -11.0, "overlap_high": -8.0}, "overlap -989 %: far slower than both parts"),
        ({"overlap": 1.4, "overlap_low": 1.2, "overlap_high": 1.5}, "overlap 140 %: more than the shorter part"),
        ({"overlap": 1.4, "overlap_low": None, "overlap_high": None}, "overlap 140 %: more than the shorter part"),
        ({"rel_ci": 5.79}, "rel_ci ±579 %: the median is hardly known"),
    ],
)
def test_impossible_figure_names_cause(figures, expected):
    assert doubt_of(figures, {"peak_from": MEASURED_PEAK}).startswith(expected)


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


def test_data_sheet_peak_is_too_low():
    assert doubt_of({"mfu_full": 1.1}, {"peak_from": "data sheet of X"}) == "mfu_full 110 %: the peak is too low"


def test_table_and_text_show_doubts():
    record = make_record(7.0)
    record["cases"][0]["details"] = {"ideal_s": 1.24e-3}
    table = tabulate_records([*grid(), record])
    assert table["doubt"].notna().sum() == 1
    assert "| doubt" in as_markdown(table)
    text = sentences.describe(table)
    assert "Doubtful figures\n- allreduce (world_size=2, data_size=7 MiB): efficiency 124 %: the probe saw" in text
    without = tabulate_records(grid())
    assert "doubt" not in as_markdown(without)
    assert "Doubtful" not in sentences.describe(without)
