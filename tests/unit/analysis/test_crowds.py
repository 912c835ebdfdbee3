"""Plots and tables of more than a reader can tell apart: they are merged, thinned or cut, and say so."""

import pandas as pd
import pytest
from analysis.cli import main
from analysis.shared import text_table
from analysis.table.variants import Baseline
from matplotlib.figure import Figure

from tests.support.entries.report import chart, draw, style
from tests.support.records import make_record, tabulate_records, write_all
from tests.support.reports import plots

MOST_SERIES = chart.MOST_SERIES


def points(types, seeds=1, ranks=(2,), sizes=(1.0, 4.0)):
    """A point per dtype, seed, number of ranks and size; each dtype and seed takes longer than the last."""
    found = []
    for kind in range(types):
        for seed in range(seeds):
            for world_size in ranks:
                for size in sizes:
                    seconds = 1e-3 * size * (1 + kind + 10 * seed)
                    record = make_record(size, world_size, seconds, samples=5, spread=0.0)
                    record["config"] |= {"dtype": f"type{kind}", "seed": seed}
                    record["point_id"] = f"{kind}-{seed}-{world_size}-{size}"
                    found.append(record)
    return found


def figure_of(records, name):
    style.apply()
    return plots(tabulate_records(records))[name]()


def labels_of(figure):
    return list(dict.fromkeys(figure.axes[0].get_legend_handles_labels()[1]))


@pytest.mark.parametrize("count", [1, MOST_SERIES, MOST_SERIES + 1, 1000])
def test_thinned_steps_are_few_and_reach_both_ends(count):
    kept = chart.sample_evenly(list(range(count)))
    assert len(kept) == min(count, MOST_SERIES)
    assert (kept[0], kept[-1]) == (0, count - 1)
    assert kept == sorted(set(kept))


def test_merged_rows_have_median_and_extremes():
    rows = tabulate_records(points(types=3, sizes=(1.0,)))
    [row] = chart.merge_series(rows, ["world_size", "data_size"]).to_dict("records")
    assert (row["ci_low_s"], row["median_s"], row["ci_high_s"]) == pytest.approx((1e-3, 2e-3, 3e-3))
    assert row["busbw_gb_per_s"] == pytest.approx(2**20 / 2e-3 / 1e9)


def test_few_series_are_drawn_one_by_one():
    figure = figure_of(points(types=MOST_SERIES), "allreduce_time_vs_datasize.png")
    assert len(labels_of(figure)) == MOST_SERIES
    assert not {"merged", "numbers"} & set(figure.get_supxlabel().split())


def test_many_series_are_merged():
    table = tabulate_records(points(types=2, seeds=MOST_SERIES, ranks=(2, 4)))
    style.apply()
    drawings = plots(table)
    for kind in ("time", "bandwidth"):
        figure = drawings[f"allreduce_{kind}_vs_datasize.png"]()
        assert f"{4 * MOST_SERIES} series merged" in figure.get_supxlabel().replace("\n", " ")
        assert all("seed" not in label for label in labels_of(figure))
        assert any("type1" in label for label in labels_of(figure))


def test_many_numbers_of_ranks_are_thinned():
    records = points(types=1, ranks=range(2, 4 + MOST_SERIES))
    figure = figure_of(records, "allreduce_time_vs_datasize.png")
    assert len(labels_of(figure)) == MOST_SERIES
    assert f"{MOST_SERIES} of {MOST_SERIES + 2} " in figure.get_supxlabel()


def test_many_speedups_are_drawn_in_order():
    table = tabulate_records(points(types=chart.MOST_POINTS + 1, ranks=(2, 4), sizes=(1.0,)))
    style.apply()
    figure = plots(table, Baseline({"world_size": "2"}))["allreduce_speedup.png"]()
    assert labels_of(figure) == [f"4 ranks: {chart.MOST_POINTS + 1} points"]
    assert "from the lowest" in figure.axes[0].get_xlabel()
    assert figure.get_figwidth() < 10


@pytest.mark.parametrize(("most", "shown"), [(None, 5), (5, 5), (4, 4), (3, 3), (1, 2)])
def test_figures_are_drawn_in_turn_of_modules_up_to_the_most(most, shown, monkeypatch, capsys):
    monkeypatch.setattr(draw, "figure_of", lambda chart: Figure())
    shown_by = {"one.charts": [f"a{number}" for number in range(4)], "other.charts": ["b0"]}
    charts = {module: dict.fromkeys(names) for module, names in shown_by.items()}
    drawn = [name for name, _ in draw.draw_all(charts, most=most)]
    assert drawn == [*(f"a{number}.png" for number in range(shown - 1)), "b0.png"]
    assert ("--figures all" in capsys.readouterr().err) == (shown < 5)


def test_long_tables_are_cut(monkeypatch, tmp_path, undrawn):
    monkeypatch.setattr(text_table, "MOST_ROWS", 3)
    assert main([str(write_all(tmp_path, points(types=4, sizes=(1.0,))))]) == 0
    report = tmp_path / "report"
    shown = (report / "full_results.md").read_text(), (report / "per_rank.md").read_text()
    for table, kinds, rows in zip(shown, (3, 2), (4, 8), strict=True):
        assert [f"type{kind}" in table for kind in range(4)] == [kind < kinds for kind in range(4)]
        assert f"first 3 of {rows} " in table
    assert len(pd.read_csv(report / "combined.csv")) == 4
