"""Cases compared in pairs, ranks told apart, look-up tables, and the plots of ring attention."""

import csv
import io
from statistics import geometric_mean

import numpy as np
import pandas as pd
import pytest
from analysis.__main__ import main
from analysis.report import ranks
from analysis.report.discover import draw_all
from analysis.report.discover import write_all as tables_of
from analysis.report.sentences import describe
from analysis.suites.matmul_lut import table as matmul_lut
from analysis.suites.ring_attention import reference
from analysis.suites.ring_attention import table as rebalance
from analysis.suites.ring_attention.winner_plot import winner_of
from benchkit.statistics.intervals import FEWEST_ROUNDS
from benchkit.statistics.paired import paired_speedup

from tests.support.records import (
    as_case,
    having,
    make_record,
    tabulate_ranks,
    tabulate_records,
    write_all,
)


def case(base, strategy, seconds, **changes):
    """A case of a record like the given one's, with both ranks as slow, compared with the first, which is even."""
    scale = seconds / 1e-3
    samples = [[sample * scale for sample in row] for row in base["samples_s"]]
    regions = {"compute_block": samples, "comm_wait": [[0.25 * sample for sample in row] for row in samples]}
    details = {
        "tokens": [3000, 1096], "busy_predicted_s": [seconds, seconds / 2], "predicted_s": 1.05 * seconds,
        "ideal_s": 2e-3, "speed": [1.0, 0.5],
    }  # fmt: skip
    return base | {
        "labels": {"strategy": strategy}, "samples_s": samples, "regions_s": regions, "details": details,
        "baseline": None if strategy == "even" else 0, "payload_bytes": None, "bus_factor": None,
    } | changes  # fmt: skip


def ring_record(seq_len=4096, slowdown=2.0, mechanism="cgroup", **seconds):
    """A record of ring attention: the median of each strategy; even 4 ms per factor."""
    times = {"even": 4e-3 * slowdown, "uneven": 3e-3 * slowdown, "balanced": 2e-3, "reference": 4e-3} | seconds
    record = make_record()
    [base] = record["cases"]
    record["config"] |= {"suite": "ring_attention", "seq_len": seq_len, "strategies": list(times)}
    record["config"].pop("data_size")
    record["config"]["hardware"]["slowdown"] = slowdown
    return record | {
        "suite": "ring_attention", "title": "ring_attention",
        "cases": [case(base, name, time) for name, time in times.items()],
        "slowdown": {"mechanism": mechanism, "asked": [1.0, slowdown], "measured": [1.0, 1.3 * slowdown]},
        "warnings": [f"rank 1 is slowed {1.3 * slowdown:.3g} times by cgroup, asked {slowdown:g}"],
        "point_id": f"{seq_len}-{slowdown}",
    }  # fmt: skip


@pytest.fixture
def cells():
    return [ring_record(seq_len, slowdown) for seq_len in (2048, 4096) for slowdown in (1.0, 2.0, 10.0)]


def test_paired_speedup_ignores_shared_drift():
    drift = np.random.default_rng(0).uniform(1, 3, 2 * FEWEST_ROUNDS)
    even = as_case(samples_s=[(2 * drift).tolist()] * 2, blocks=[2] * FEWEST_ROUNDS)
    ours = as_case(samples_s=[drift.tolist()] * 2, blocks=[2] * FEWEST_ROUNDS)
    assert paired_speedup(even, ours) == (2.0, 2.0, 2.0)
    few = as_case(samples_s=[drift[:4].tolist()] * 2, blocks=[2, 2])
    assert paired_speedup(even, few) == (2.0, None, None)


def test_rows_compare_with_job_baseline(cells):
    table = tabulate_records(cells).set_index(["seq_len", "slowdown", "strategy"]).sort_index()
    assert table.loc[(4096, 10.0, "balanced"), "paired_speedup"] == pytest.approx(20)
    assert table.loc[(4096, 10.0, "balanced"), "efficiency"] == pytest.approx(1)
    assert np.isnan(table.loc[(4096, 10.0, "even"), "paired_speedup"])
    assert table.loc[(2048, 2.0, "uneven"), "warning"] == "rank 1 is slowed 2.6 times by cgroup, asked 2"
    assert table.loc[(2048, 2.0, "uneven"), "measured_slowdown"] == "1 2.6"
    assert table.loc[(2048, 2.0, "uneven"), "tokens"] == "[3000, 1096]"


def test_details_are_not_identity_columns(cells):
    from analysis.table import identity_columns

    columns = identity_columns(tabulate_records(cells))
    assert {"strategy", "slowdown", "seq_len"} <= set(columns)
    assert not {"tokens", "speed", "strategies", "busy_predicted_s"} & set(columns)


def test_rank_rows_have_busy_and_wait_time():
    table = tabulate_ranks(ring_record())
    assert len(table) == 8
    last = table.iloc[-3]
    assert (last["strategy"], last["rank"], last["tokens"], last["speed"]) == ("balanced", 1, 1096, 0.5)
    assert last["wait_s"] == pytest.approx(0.5e-3)
    assert last["busy_s"] == pytest.approx(1.5e-3)
    assert last["compute_block_s"] == pytest.approx(2e-3)
    assert tabulate_ranks(make_record(world_size=1)).empty
    shown = ranks.for_print(table)
    assert "busy [ms]" in shown
    assert "seq_len" not in shown  # the same throughout


@pytest.mark.parametrize("regions", [{}, {"compute_block": [[1e-3] * 400] * 2, "comm_wait": [[0.0] * 400] * 2}])
def test_busy_time_needs_marked_waiting(regions):
    record = ring_record()
    record["cases"][1]["regions_s"] = regions
    table = tabulate_ranks(record)
    unknown = table[table["strategy"] == "uneven"]
    assert unknown[["busy_s", "wait_s", "comm_wait_s"]].isna().all(axis=None)
    assert table.loc[table["strategy"] == "even", "busy_s"].tolist() == pytest.approx([6e-3] * 2)
    assert "busy [ms]" in ranks.for_print(table)


def test_table_shows_harshest_slowdown_and_means(cells):
    text = rebalance.write(tabulate_records(cells))["ring_attention_rebalanced.md"]
    assert "slowed 10 times" in text
    assert "| balanced" in text
    mean = geometric_mean([2, 2, 4, 4, 20, 20])
    rivals = geometric_mean([1.5, 1.5, 3, 3, 15, 15])
    assert f"balanced: {mean:.2f} times as fast as even, {rivals:.2f} times as fast as the best of even, uneven" in text
    assert "slower than even beyond its interval in 0 of 6; within 10% of the ideal in 6 of 6" in text
    assert "of the prediction in 6 of 6." in text
    assert rebalance.write(tabulate_records([make_record()])) == {}


def test_reference_is_that_of_cell_else_of_point_at_full_speed():
    """Shares of a GPU cannot be lifted, so that a job on them has no reference of its own."""
    shared = [ring_record(length, factor) for length, factor in ((8192, 1.0), (8192, 4.0), (1024, 4.0))]
    records = [ring_record(reference=5e-3), *shared]
    for record in shared:
        record["cases"] = [case for case in record["cases"] if case["labels"]["strategy"] != "reference"]
    [(_, rows)] = rebalance.cells_of(tabulate_records(records))
    lines = reference.tabulate(rows).to_dict("records")
    times = {(line["tokens"], line["slowdown"], line["strategy"]): line for line in lines}
    balanced = times[4096, "2", "balanced"]
    assert balanced["T_ref [ms]"] == pytest.approx(5)
    assert balanced["efficiency T_ref/T [%]"] == pytest.approx(250)
    assert balanced["slowdown T/T_ref"] == pytest.approx(0.4)
    assert balanced["tokens per rank"] == "[3000, 1096]"
    assert times[8192, "4", "even"]["T_ref [ms]"] == pytest.approx(4)
    assert times[8192, "4", "even"]["slowdown T/T_ref"] == pytest.approx(4)
    assert not any(tokens == 1024 for tokens, _, _ in times)


def test_summary_omits_missing_prediction(cells):
    for record in cells:
        moving = case(record["cases"][0], "online", 2e-3)
        record["cases"] = [*record["cases"], moving | {"details": moving["details"] | {"predicted_s": None}}]
    lines = rebalance.write(tabulate_records(cells))["ring_attention_rebalanced.md"].splitlines()
    said = {line.split(":")[0]: "prediction" in line for line in lines if line.startswith("- ")}
    assert said == {"- balanced": True, "- online": False}


def test_unslowed_case_is_never_fastest():
    record = ring_record(4096, 2.0, reference=1e-3)
    record["cases"][-1] |= {"unslowed": True}
    [told] = [line for line in describe(tabulate_records([record])).splitlines() if "fastest" in line]
    assert told.startswith("- ring_attention: the fastest of 3 is strategy=balanced with 2 ms, 3 times as fast as")


def test_case_without_interval_ties_winner():
    record = ring_record(2048, 2.0)
    record["cases"] = record["cases"][:3]
    short = record["cases"][1]
    short |= {name: [row[:3] for row in short[name]] for name in ("samples_s", "start_offsets_s")}
    short |= {"regions_s": {}, "blocks": [1] * 3}
    figure = dict(draw_all(tabulate_records([record]), None))["ring_attention_winner.png"]
    [cell] = [text.get_text() for text in figure.axes[0].texts]
    assert cell == "balanced\n4.00×\n≈ uneven"


def test_winner_has_highest_paired_speedup():
    cell = pd.DataFrame(
        {
            "strategy": ["even", "uneven", "balanced"],
            "median_s": [4e-3, 1.9e-3, 2e-3],  # between pairs the machine was slower
            "paired_speedup": [np.nan, 1.9, 2.1],
            "paired_speedup_low": [np.nan, 1.8, 2.0],
            "paired_speedup_high": [np.nan, 2.0, 2.2],
        }
    )
    best, gain, text = winner_of(cell)
    assert (best["strategy"], gain, text) == ("balanced", 2.1, "balanced\n2.10×\n≈ uneven")


def test_marks_of_single_cell_do_not_cover_each_other():
    figures = dict(draw_all(tabulate_records([ring_record(2048, 2.0)]), None))
    for name in ("speedup_over_even", "efficiency", "latency_scaling"):
        [axis] = figures[f"ring_attention_{name}.png"].axes
        at = [handle[0].get_xdata()[0] for handle in axis.get_legend_handles_labels()[0]]
        assert len(set(at)) == len(at) >= 2
        assert axis.get_xlabel() == "slowdown of the last rank"


def test_speedup_axis_resolves_small_values():
    figure = dict(draw_all(tabulate_records([ring_record(2048, 1.0, balanced=3e-3)]), None))
    [axis] = figure["ring_attention_speedup_over_even.png"].axes
    low, high = axis.get_ylim()
    assert len([tick for tick in axis.get_yticks() if low <= tick <= high]) >= 3
    assert len(figure["ring_attention_winner.png"].axes) == 1  # one cell needs no colour bar


def test_strategy_has_same_colour_in_all_figures(cells):
    figures = dict(draw_all(tabulate_records(cells), None))
    colours = {}
    for name in ("speedup_over_even", "efficiency", "latency_scaling"):
        handles, labels = figures[f"ring_attention_{name}.png"].axes[0].get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            colours.setdefault(label, set()).add(handle[0].get_color())
    assert len(colours) >= 3
    assert all(len(found) == 1 for found in colours.values())


def test_slower_strategy_is_counted(cells):
    cells[0] = ring_record(2048, 1.0, balanced=5e-3)
    text = rebalance.write(tabulate_records(cells))["ring_attention_rebalanced.md"]
    assert "slower than even beyond its interval in 1 of 6; within 10% of the ideal in 5 of 6" in text


def test_one_cell_gets_every_plot(cells):
    names = {f"ring_attention_{name}.png" for name in ("speedup_over_even", "efficiency", "tokens", "winner")}
    names.add("ring_attention_latency_scaling.png")
    for records in (cells, cells[:1]):
        figures = dict(draw_all(tabulate_records(records), None))
        assert names <= set(figures)


def listed_record(*factors, **seconds):
    """A record whose slowdown is a list; at the harshest, balanced is twice as fast as even."""
    record = ring_record(slowdown=max(factors), **seconds)
    [row, _] = record["cases"][0]["samples_s"]
    for each in record["cases"]:
        each["samples_s"] = [each["samples_s"][0]] * len(factors)
        each["start_offsets_s"] = [[0.0] * len(row)] * len(factors)
        each["regions_s"] = {name: [spent[0]] * len(factors) for name, spent in each["regions_s"].items()}
    record["config"]["hardware"]["slowdown"] = list(factors)
    return record | {"world_size": len(factors), "point_id": str(factors)}


def test_per_rank_slowdown_has_table_and_plots():
    table = tabulate_records([listed_record(1, 2, 4), listed_record(1.0, 1.0, 10.0), listed_record(4, 2, 1)])
    [text] = rebalance.write(table).values()
    assert text.startswith("# Ring attention, ranks slowed 4, 2, 1 times\n")
    assert "(geometric means of 3)" in text
    figures = dict(draw_all(table, None))
    winner = figures["ring_attention_winner.png"].axes[0]
    assert [label.get_text() for label in winner.get_xticklabels()] == ["10", "1, 2, 4", "4, 2, 1"]
    assert winner.get_xlabel() == "slowdown of each rank, or of the last"
    speedups = figures["ring_attention_speedup_over_even.png"].axes[0]
    assert [label.get_text() for label in speedups.get_xticklabels()] == ["10", "1, 2, 4", "4, 2, 1"]
    panels = figures["ring_attention_tokens.png"].axes
    assert [axis.get_title() for axis in panels] == [f"slowdown {label}" for label in ("10", "1, 2, 4", "4, 2, 1")]


def test_list_slowing_last_rank_equals_scalar():
    earlier, later = ring_record(slowdown=2.0), listed_record(1, 2)
    later["started_at"] = "2026-01-02T00:00:00.000+00:00"
    [text] = rebalance.write(tabulate_records([earlier, later])).values()
    assert text.startswith("# Ring attention, last rank slowed 2 times\n")
    assert "balanced: 4.00 times as fast as even" in text
    assert "(geometric means of 1)" in text


def test_winner_excludes_reference(cells):
    cells[0] = ring_record(2048, 1.0, reference=1e-4)
    figure = dict(draw_all(tabulate_records(cells), None))["ring_attention_winner.png"]
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts[0].startswith("balanced\n2.00×")
    assert len(texts) == 6


def lut_records():
    records = []
    for slowdown in (1.0, 2.0, 10.0):
        record = make_record()
        [base] = record["cases"]
        record["config"] |= {"suite": "matmul_lut", "sizes": [64, 128], "bg_streams": 0}
        record["world_size"] = 1
        record["config"].pop("data_size")
        record["config"]["hardware"]["slowdown"] = slowdown
        cases = [
            case(base, "even", 1e-3 * slowdown * size / 64, labels={"size": size}, useful_flops=2.0 * size**3)
            for size in (64, 128)
        ]
        record = having(record, cpu="a processor")
        record |= {"suite": "matmul_lut", "cases": cases, "point_id": f"{slowdown}", "warnings": []}
        records.append(record | {"slowdown": {"mechanism": "cgroup", "asked": [slowdown], "measured": [slowdown]}})
    return records


def test_lut_has_columns_and_provenance():
    [(name, text)] = tables_of(tabulate_records(lut_records()))
    assert name == "matmul_lut.csv"
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert "# host: here" in comments
    assert "# device name: a processor" in comments
    assert "# slowed by: cgroup" in comments
    assert any(line.startswith("# measured: 2026-01-01") for line in comments)
    rows = list(csv.DictReader(io.StringIO("".join(f"{line}\n" for line in text.splitlines() if line[0] != "#"))))
    assert list(rows[0]) == [*matmul_lut.COLUMNS, "doubt"]
    assert {row["doubt"] for row in rows} == {""}
    assert [(row["mps_pct"], row["size"]) for row in rows] == [
        ("100", "64"), ("50", "64"), ("10", "64"), ("100", "128"), ("50", "128"), ("10", "128"),
    ]  # fmt: skip
    assert float(rows[1]["avg_ms"]) == pytest.approx(2)
    assert float(rows[1]["tflops"]) == pytest.approx(2 * 64**3 / 2e-3 / 1e12, rel=1e-4)
    assert {"matmul_lut_time.png", "matmul_lut_share.png"} <= set(dict(draw_all(tabulate_records(lut_records()), None)))


def test_lut_row_faster_than_larger_share_is_doubted():
    full, half, tenth = lut_records()
    swapped = [case(each, "even", 1e-4, labels=each["labels"]) for each in half["cases"]]
    [(_, text)] = tables_of(tabulate_records([full, half | {"cases": swapped}, tenth]))
    lines = [line for line in text.splitlines() if line[0] in "15"]
    assert [line.endswith(",faster than a larger share") for line in lines] == [False, True, False] * 2


def test_size_labels_are_integers():
    figures = dict(draw_all(tabulate_records([*lut_records(), make_record(status="crash")]), None))
    share = figures["matmul_lut_share.png"].axes[0].get_legend_handles_labels()[1]
    assert share == ["ideal", "n = 64", "n = 128"]
    assert [text.get_text() for text in figures["matmul_lut_time.png"].axes[0].get_xticklabels()] == ["64", "128"]
    assert figures["matmul_lut_time.png"].get_supxlabel().endswith("\non a processor")


def test_length_labels_are_integers(cells):
    figures = dict(draw_all(tabulate_records([*cells, make_record()]), None))
    axis = figures["ring_attention_winner.png"].axes[0]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["2048", "4096"]


def test_tables_and_plots_split_by_setting(cells):
    others = [ring_record(seq_len, slowdown, balanced=9e-3) for seq_len in (2048, 4096) for slowdown in (1.0, 2.0)]
    for record in others:
        record["config"]["causal"] = False
    for record in cells:
        record["config"]["causal"] = True
    table = tabulate_records([*cells, *others])
    texts = rebalance.write(table)
    assert list(texts) == [f"ring_attention_rebalanced_causal-{causal}.md" for causal in (False, True)]
    assert "(geometric means of 4)" in texts["ring_attention_rebalanced_causal-False.md"]
    assert "(geometric means of 6)" in texts["ring_attention_rebalanced_causal-True.md"]
    assert {f"ring_attention_winner_causal-{causal}.png" for causal in (False, True)} <= set(
        dict(draw_all(table, None))
    )


def test_lut_skips_multi_rank_and_list_slowdown():
    records = lut_records()
    records[1]["world_size"] = 2
    records[2]["config"]["hardware"]["slowdown"] = [10]
    [(_, text)] = tables_of(tabulate_records(records))
    assert [line.split(",")[0] for line in text.splitlines() if line[0].isdigit()] == ["100", "10"] * 2


def test_table_counts_cases_without_interval(cells):
    for record in cells[:2]:
        for each in record["cases"]:
            each |= {name: [row[:3] for row in each[name]] for name in ("samples_s", "start_offsets_s")}
            each |= {"regions_s": {}, "blocks": [1] * 3}
    text = rebalance.write(tabulate_records(cells))["ring_attention_rebalanced.md"]
    assert "slower than even beyond its interval in 0 of 4, 2 without an interval; within" in text


def test_table_splits_by_slowdown_mechanism():
    free, quota = ring_record(2048, 1.0, mechanism=None), ring_record(2048, 2.0)
    duty = ring_record(2048, 2.0, mechanism="duty_cycle", balanced=9e-3)
    texts = rebalance.write(tabulate_records([free, quota]))
    assert list(texts) == ["ring_attention_rebalanced.md"]
    assert "(geometric means of 2)" in texts["ring_attention_rebalanced.md"]
    table = tabulate_records([free, quota, duty])
    texts = rebalance.write(table)
    names = [f"ring_attention_rebalanced_slowed_by-{name}.md" for name in ("cgroup", "duty_cycle")]
    assert list(texts) == names
    assert all("(geometric means of 2)" in text for text in texts.values())
    assert "slower than even beyond its interval in 1 of 2" in texts[names[1]]
    assert "ring_attention_winner_slowed_by-cgroup.png" in dict(draw_all(table, None))


def test_lut_splits_by_mechanism():
    records = lut_records()
    records[0]["slowdown"] = {"asked": [1.0]}
    records[1]["slowdown"] = records[1]["slowdown"] | {"mechanism": "duty_cycle"}
    texts = dict(tables_of(tabulate_records(records)))
    shares = {
        name: [line.split(",")[0] for line in text.splitlines() if line[0].isdigit()] for name, text in texts.items()
    }
    assert shares == {
        "matmul_lut_slowed_by-duty_cycle.csv": ["100", "50"] * 2, "matmul_lut_slowed_by-cgroup.csv": ["100", "10"] * 2,
    }  # fmt: skip
    assert "# slowed by: cgroup\n" in texts["matmul_lut_slowed_by-cgroup.csv"]
    figures = dict(draw_all(tabulate_records(records), None))
    assert {"matmul_lut_share_slowed_by-cgroup.png", "matmul_lut_time_slowed_by-duty_cycle.png"} <= set(figures)


def test_lut_takes_median_over_runs():
    old = lut_records()
    for record in old:
        record |= {"started_at": "2025-01-01T00:00:00.000+00:00", "warnings": ["rank 0 was not slowed enough"]}
        record["run"] = "old"
        for case in record["cases"]:
            case["samples_s"] = [[3 * each for each in row] for row in case["samples_s"]]
    [(_, alone)] = tables_of(tabulate_records(lut_records()))
    [(_, text)] = tables_of(tabulate_records([*old, *(record | {"run": "new"} for record in lut_records())]))
    assert "# measured: 2025-01-01T00:00:00.000+00:00 to 2026-01-01T00:00:00.000+00:00\n" in text
    assert "# warning: rank 0 was not slowed enough\n# runs: 2, figures are medians over them\n" in text
    before, after = (
        [float(line.split(",")[4]) for line in each.splitlines() if line[0].isdigit()] for each in (alone, text)
    )
    assert after == pytest.approx([2 * each for each in before])


def test_report_writes_all_files(cells, tmp_path, capsys):
    place = write_all(tmp_path, [*cells, *lut_records()])
    assert main([str(place)]) == 0
    found = {path.name for path in (place / "analysis").iterdir()}
    assert {"per_rank.csv", "per_rank.md", "matmul_lut.csv", "ring_attention_rebalanced.md"} <= found
    assert "slowed 13 times by cgroup, asked 10" in (place / "analysis" / "analysis.txt").read_text()
    assert "paired_speedup" in capsys.readouterr().out
