"""Figures that cannot be are told as such, with their likely cause."""

from dataclasses import replace

import pytest
from analysis.records.doubts import doubt_of
from benchkit.api.case import MEASURED_PEAK

from tests.support.records import as_record, grid, make_record, tabulate_records
from tests.support.reports import describe

OVERLAP = {"overlap": 1.4, "overlap_low": None, "overlap_high": None}
IMPOSSIBLE = (
    {"mfu_full": 1.001}, {"mfu_full": 1.2, "hfu_full": 1.5}, {"efficiency": 1.24}, {"limit_share": 1.1},
    {"overlap": -9.89, "overlap_low": -11.0, "overlap_high": -8.0}, OVERLAP | {"overlap_low": 1.2}, OVERLAP,
    {"rel_ci": 5.79},
)  # fmt: skip


def doubts(figures, peak_from=None, **of_case):
    record = as_record(make_record())
    return doubt_of(figures, replace(record.cases[0], details={"peak_from": peak_from}, **of_case), record)


def test_impossible_figure_names_cause(golden):
    told = [doubts(figures, MEASURED_PEAK) for figures in IMPOSSIBLE]
    assert all(told)
    golden("\n".join([*told, doubts({"mfu_full": 1.1}, "data sheet of X")]))


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
    assert doubts(figures) is None


def timed(*rows, on_gpus=False, **changes):
    """The doubt of a row whose ranks have these samples."""
    record = make_record(samples=2)
    starts = None if on_gpus else [[0.0] * len(row) for row in rows]
    samples = {"samples_s": [*rows], "start_offsets_s": starts, "blocks": [len(rows[0])]}
    record["cases"][0] |= samples | {"elapsed_s": 1.0} | changes
    [row] = tabulate_records([record]).to_dict("records")
    return row["doubt"]


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([[0.0, 0.0, 1e-6]] * 2, {}),
        ([[1e-6] * 5] * 2, {}),
        ([[0.3, 0.4, 0.5]] * 2, {}),
        ([[0.06, 0.04, 0.05]] * 2, {"calls_per_sample": 10}),
        ([[0.01, 0.02, 0.03], [0.3, 0.4, 0.5]], {}),
    ],
)
def test_clock_that_cannot_be_right_is_doubted(rows, changes, golden):
    golden(timed(*rows, **changes))


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([[1e-6] * 4] * 2, {}),  # few
        ([[1e-6] * 5, [1e-6, 1e-6, 1e-6, 1e-6, 2e-6]], {}),
        ([[1e-6] * 50] * 2, {"on_gpus": True}),  # of GPUs: their events tick in microseconds
        ([[1e-6, 1.1e-6, 1.2e-6]] * 2, {}),  # resets and barriers take most of the time
        ([[0.3, 0.4, 0.3]] * 2, {}),
        ([[0.3, 0.4, 0.5]] * 2, {"elapsed_s": 0.0}),  # unknown
    ],
)
def test_clock_that_can_be_right_is_not_doubted(rows, changes):
    assert not isinstance(timed(*rows, **changes), str)


@pytest.mark.parametrize(
    ("finished_at", "is_doubted"),
    [
        ("2026-01-01T00:00:00.000+00:00", False),
        ("2023-04-07T00:00:00.000+00:00", True),
        ("2026-01-01T00:30:00.000+01:00", True),
        ("2026-01-01", False),  # of no zone
        (None, False),
    ],
)
def test_clock_that_was_set_back_is_doubted(finished_at, is_doubted):
    table = tabulate_records([make_record(finished_at=finished_at)])
    assert table["doubt"].str.contains("set back").eq(True).tolist() == [is_doubted]


def test_doubts_are_in_table_and_text():
    record = make_record(7.0)
    record["cases"][0]["details"] = {"ideal_s": 1.24e-3}
    table = tabulate_records([*grid(), record])
    assert table["doubt"].notna().tolist() == [False] * 6 + [True]
    assert "- allreduce (world_size=2, data_size=7 MiB): efficiency 124 %" in describe(table)
    assert "Doubtful" not in describe(tabulate_records(grid()))
