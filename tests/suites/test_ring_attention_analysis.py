"""Cases compared in pairs, ranks told apart, and the tables and plots of ring attention."""

from statistics import geometric_mean

import numpy as np
import pytest
from analysis.screen.screen import screen_of
from analysis.table.combine import identity_columns

from tests.support.entries.report import tables
from tests.support.records import make_record, tabulate_ranks, tabulate_records, without
from tests.support.reports import NARROW, drawn, texts_of

TABLE = "ring_attention_rebalanced.md"
LINES = [f"ring_attention_{name}.png" for name in ("speedup", "efficiency", "latency_scaling")]
WINNER, TOKENS = "ring_attention_winner.png", "ring_attention_tokens.png"


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
        "elapsed_s": scale * base["elapsed_s"], "baseline": None if strategy == "even" else 0,
        "payload_bytes": None, "bus_factor": None,
    } | changes  # fmt: skip


def ring_record(seq_len=4096, slowdown=2.0, mechanism="cgroup", causal=None, off=1.05, **seconds):
    """A record of ring attention: the median of each strategy; even 4 ms per factor.

    The last rank was `off` times as slow as asked.
    """
    times = {"even": 4e-3 * slowdown, "uneven": 3e-3 * slowdown, "balanced": 2e-3, "reference": 4e-3} | seconds
    record = make_record()
    [base] = record["cases"]
    record["config"] |= {"suite": "ring_attention", "seq_len": seq_len, "strategies": list(times)}
    record["config"] |= {} if causal is None else {"causal": causal}
    record["config"].pop("data_size")
    record["config"]["hardware"]["slowdown"] = slowdown
    return record | {
        "suite": "ring_attention", "title": "ring_attention",
        "cases": [case(base, name, time) for name, time in times.items()],
        "slowdown": {"mechanism": mechanism, "asked": [1.0, slowdown], "measured": [1.0, off * slowdown]},
        "warnings": [f"rank 1 is slowed {off * slowdown:.3g} times by cgroup, asked {slowdown:g}"],
        "point_id": f"{seq_len}-{slowdown}-{causal}",
    }  # fmt: skip


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


def short(each):
    """The same case with too few samples for an interval."""
    cut = {name: [row[:3] for row in each[name]] for name in ("samples_s", "start_offsets_s")}
    return each | cut | {"regions_s": {}, "blocks": [1] * 3}


def made(**changes):
    return [ring_record(seq_len, slowdown, **changes) for seq_len in (2048, 4096) for slowdown in (1.0, 2.0, 10.0)]


@pytest.fixture(scope="module")
def table():
    return tabulate_records(made())


def texts_of_ring(*records):
    texts = texts_of(tabulate_records(list(records)))
    return {name: text for name, text in texts.items() if name.startswith("ring_attention")}


def ticks(axis, which="x"):
    return [label.get_text() for label in getattr(axis, f"get_{which}ticklabels")()]


def test_rows_compare_with_job_baseline(table):
    rows = table.set_index(["seq_len", "slowdown", "strategy"]).sort_index()
    assert rows.loc[(4096, 10.0, "balanced"), "paired_speedup"] == pytest.approx(20)
    assert rows.loc[(4096, 10.0, "balanced"), "efficiency"] == pytest.approx(1)
    assert np.isnan(rows.loc[(4096, 10.0, "even"), "paired_speedup"])
    shown = rows.loc[(2048, 2.0, "uneven"), ["measured_slowdown", "tokens"]]
    assert list(shown) == ["1 2.1", "[3000, 1096]"]
    columns = identity_columns(table)
    assert {"strategy", "slowdown", "seq_len"} <= set(columns)
    assert not {"tokens", "speed", "strategies", "busy_predicted_s"} & set(columns)


def test_rank_rows_have_busy_and_wait_time():
    table = tabulate_ranks(ring_record())
    assert len(table) == 8
    last = table.iloc[-3]
    assert (last["strategy"], last["rank"], last["tokens"], last["speed"]) == ("balanced", 1, 1096, 0.5)
    assert (last["wait_s"], last["busy_s"], last["compute_block_s"]) == pytest.approx((0.5e-3, 1.5e-3, 2e-3))
    assert tabulate_ranks(make_record(world_size=1)).empty
    shown = tables.ranks_for_print(table)
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


def test_table_shows_harshest_slowdown_and_means(golden, table):
    text = texts_of(table)[TABLE]
    golden(text, NARROW)
    [told] = [line for line in text.splitlines() if line.startswith("- balanced")]
    for speedups in ([2, 2, 4, 4, 20, 20], [1.5, 1.5, 3, 3, 15, 15]):  # over even, and of the best of the plain splits
        assert f" {geometric_mean(speedups):.2f} × " in told
    assert not texts_of_ring(make_record())


def test_cells_are_counted_by_what_they_show(golden):
    """One cell where balanced is slower, two without intervals; a strategy that nothing was predicted of."""
    records = [ring_record(2048, 1.0, balanced=5e-3), *made()[1:]]
    for record in records[-2:]:
        record["cases"] = [short(each) for each in record["cases"]]
    for record in records:
        moving = case(record["cases"][0], "online", 2e-3)
        record["cases"] += [moving | {"details": moving["details"] | {"predicted_s": None}}]
    text = texts_of_ring(*records)[TABLE]
    golden("\n".join(line for line in text.splitlines() if line.startswith("- ")))


def test_reference_is_that_of_cell_else_of_point_at_full_speed():
    """Shares of a GPU cannot be lifted, so that a job on them has no reference of its own."""
    shared = [ring_record(length, factor) for length, factor in ((8192, 1.0), (8192, 4.0), (1024, 4.0))]
    for record in shared:
        record["cases"] = without(record["cases"], 3)
    [text] = texts_of_ring(ring_record(reference=5e-3), *shared).values()
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text[text.index("| tokens") - 4 :].splitlines()
    ]
    times = {(tokens, slowdown, strategy): rest for tokens, slowdown, strategy, *rest in filter(None, lines)}
    assert times["4096", "2", "balanced"] == ["[3000, 1096]", "2", "5", "250", "0.4"]
    assert [times["8192", "4", "even"][at] for at in (2, 4)] == ["4", "4"]
    assert not any(tokens == "1024" for tokens, _, _ in times)


def test_unslowed_case_is_never_fastest():
    record = ring_record(4096, 2.0, reference=1e-3)
    record["cases"][-1] |= {"unslowed": True}
    assert screen_of(tabulate_records([record])).answers[0].startswith("balanced")


def test_winner_is_not_reference_and_claims_nothing_of_few_rounds():
    tied = ring_record(2048, 2.0)
    tied["cases"] = tied["cases"][:3]
    tied["cases"][1] = short(tied["cases"][1])
    records = [tied, ring_record(4096, 2.0, reference=1e-4)]
    names, figures = drawn(tabulate_records(records), WINNER, *LINES)
    cells = [text.get_text() for text in figures[WINNER].axes[0].texts]
    assert sorted(cells) == ["balanced\n4.00×", "balanced\n4.00×\nnot judged: uneven"]
    assert ticks(figures[WINNER].axes[0]) == ["2048 tokens", "4096 tokens"]
    assert TOKENS in names


def test_strategies_of_single_cell_are_sorted_bars():
    names, figures = drawn(tabulate_records([ring_record(2048, 1.0, balanced=3e-3)]), *LINES)
    for figure in figures.values():
        [axis] = figure.axes
        if axis.patches:
            lengths = [bar.get_width() for bar in sorted(axis.patches, key=lambda bar: bar.get_y())]
            assert len(lengths) == len(ticks(axis, "y")) >= 2
            assert lengths in (sorted(lengths), sorted(lengths, reverse=True))
    assert WINNER not in names  # a map of one cell asks no question


def test_splits_are_shown_of_a_length_with_all_slowdowns():
    """An interrupted sweep has the longest one at full speed alone, where all strategies are alike."""
    _, figures = drawn(tabulate_records(made()[:4]), TOKENS)
    assert [axis.get_title() for axis in figures[TOKENS].axes] == ["slowdown 1", "slowdown 2", "slowdown 10"]


def test_strategy_has_same_colour_in_all_figures(table):
    names, figures = drawn(table, *LINES)
    assert {*LINES, WINNER, TOKENS} <= set(names)
    colours = {}
    for figure in figures.values():
        handles, labels = figure.axes[0].get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            colours.setdefault(label, set()).add(handle[0].get_color())
    assert len(colours) >= 3
    assert all(len(found) == 1 for found in colours.values())


def test_slowdown_per_rank_has_table_and_plots():
    table = tabulate_records([listed_record(1, 2, 4), listed_record(1.0, 1.0, 10.0), listed_record(4, 2, 1)])
    [text] = [text for name, text in texts_of(table).items() if name.startswith("ring")]
    assert "slowed 4, 2, 1 times" in text.splitlines()[0]
    _, figures = drawn(table, WINNER, LINES[0], TOKENS)
    labels = ["10", "1, 2, 4", "4, 2, 1"]
    for name in (WINNER, LINES[0]):
        shown = {" ".join(tick.split()) for tick in ticks(figures[name].axes[0])}
        assert shown == {f"slowdown {label}" for label in labels}
    assert [axis.get_title() for axis in figures[TOKENS].axes] == [f"slowdown {label}" for label in labels]


def test_slowdown_that_differs_from_the_asked_one_is_told_everywhere():
    records = [
        ring_record(length, asked, off=off)
        for length, asked, off in ((2048, 2.0, 0.54), (4096, 2.0, 0.59), (2048, 1.0, 1.05), (4096, 10.0, 1.0))
    ]
    table = tabulate_records(records)
    names = ["1", "2 (measured 1.1 to 1.2)", "10"]
    text = texts_of(table)[TABLE]
    assert names[1] in text
    assert "(measured" not in text.splitlines()[0]
    _, figures = drawn(table, WINNER, TOKENS, *LINES)
    for name, word in ((WINNER, "slowdown "), (LINES[0], "slowdown "), (LINES[1], "")):
        shown = [" ".join(tick.split()) for tick in ticks(figures[name].axes[0])]
        assert shown == [word + each for each in names]
    titles = [" ".join(axis.get_title().split()) for axis in figures[LINES[2]].axes]
    assert titles == [f"slowdown {name}" for name in names]


def test_list_slowing_last_rank_equals_scalar():
    later = listed_record(1, 2) | {"started_at": "2026-01-02T00:00:00.000+00:00"}
    [text] = texts_of_ring(ring_record(slowdown=2.0), later).values()
    assert "last rank slowed 2 times" in text.splitlines()[0]
    assert "means of" not in text  # of one cell


def test_tables_and_plots_split_by_setting():
    table = tabulate_records([*made(causal=True)[:2], *made(causal=False)[:3]])
    texts = texts_of(table)
    means = {name: text[text.index("means of") :][9] for name, text in texts.items() if name.startswith("ring")}
    assert means == {f"ring_attention_rebalanced_causal-{causal}.md": str(2 + (not causal)) for causal in (False, True)}
    names, figures = drawn(table, WINNER)
    assert WINNER in names
    assert any("causal" in tick for tick in ticks(figures[WINNER].axes[0], "y"))


def test_mechanisms_are_told_apart_but_not_from_full_speed():
    free, quota = ring_record(2048, 1.0, mechanism=None), ring_record(2048, 2.0)
    assert list(texts_of_ring(free, quota)) == [TABLE]
    duty = ring_record(2048, 2.0, mechanism="duty_cycle")
    texts = texts_of_ring(free, quota, duty)
    assert list(texts) == [f"ring_attention_rebalanced_slowed_by-{name}.md" for name in ("cgroup", "duty_cycle")]
    assert all("means of 2 cells" in text for text in texts.values())


@pytest.mark.parametrize(("balanced_s", "is_told"), [(2e-3, True), (0.5e-3, False)])
def test_answer_leaves_out_a_doubtful_efficiency(balanced_s, is_told):
    [answer] = screen_of(tabulate_records([ring_record(balanced=balanced_s)])).answers
    assert ("%" in answer) is is_told
