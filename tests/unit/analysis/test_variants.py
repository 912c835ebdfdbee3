"""What is compared with what, and what is known of the ratio: in turns, in several runs, or apart."""

import argparse

import numpy as np
import pytest
from analysis.report import speedups
from analysis.screen.screen import screen_of
from analysis.shared.discover import questions
from analysis.table.speedup import CaseTimes, Variant, add_speedups, judge_fastest
from analysis.table.variants import (
    Baseline,
    BaselineError,
    compare_suite,
    compare_suites,
    explain_no_comparison,
    require_baseline_rows,
)
from benchkit.api.question import FIRST, LEAST, Comparison, Question
from benchkit.statistics.judgement import AHEAD, BEHIND, NOT_JUDGED, TIED, UNCLEAR

from tests.support.records import MEASURE, grid, having, job_in_turns, make_record, make_rich_record, tabulate_records
from tests.support.reports import charts

OVER_TWO = Baseline({"world_size": "2"})
MONDAY = {2: 1.194e-3, 4: 7.863e-3}
TUESDAY = {2: 2.517e-3, 4: 12.16e-3}
"""Of each number of ranks the median of a run."""


def runs(*times):
    return [make_record(1, ranks, s, run=f"{run}") for run, of_run in enumerate(times) for ranks, s in of_run.items()]


def compared(records, baseline=None):
    """The ratios of all suites."""
    found = compare_suites(tabulate_records(records), baseline).items()
    return [each.speedup for _, variants in found for each in variants.variants if each.speedup]


def test_ratio_is_quotient_of_times_and_of_equal_work_only():
    found = compared(grid(), OVER_TWO)
    assert [ratio.value for ratio in found] == pytest.approx([0.5] * 3)
    assert {(ratio.basis, ratio.judgement) for ratio in found} == {("", NOT_JUDGED)}


@pytest.mark.parametrize(("turns", "has_interval"), [(5, False), (6, True), (19, True), (100, True)])
def test_few_turns_have_an_interval_of_their_ratio(turns, has_interval):
    [ratio] = compared([job_in_turns(2.0, turns, 0.02)])
    assert ratio.basis == f"{turns} rounds"
    assert ratio.is_interval == has_interval
    assert ratio.low <= ratio.value <= ratio.high
    assert ratio.low > 1.8
    assert ratio.judgement == (AHEAD if has_interval else NOT_JUDGED)


@pytest.mark.parametrize(("speedup", "word"), [(2.0, AHEAD), (1.2, UNCLEAR)])
def test_speedup_that_changes_during_the_run_has_the_ends_of_all_rounds(speedup, word):
    made = job_in_turns(speedup, 40)
    for rank in made["cases"][1]["samples_s"]:
        rank[:] = [each * (1.2 if place > 20 else 1) for place, each in enumerate(rank)]
    [found] = compared([made])
    assert (found.low, found.high) == pytest.approx((speedup / 1.2**2, speedup))  # both ranks have one list
    assert found.judgement == word


def test_runs_are_paired_and_have_an_interval_from_six_on():
    ratios = sorted(run[2] / run[4] for run in (MONDAY, TUESDAY))
    [ratio] = compared(runs(MONDAY, TUESDAY), OVER_TWO)
    quotient = np.median([MONDAY[2], TUESDAY[2]]) / np.median([MONDAY[4], TUESDAY[4]])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((quotient, *ratios))
    assert (ratio.is_interval, ratio.basis) == (False, "2 runs")
    times = [{ranks: 1 + n * ranks / 10 for ranks in (2, 4)} for n in range(6)]
    [ratio] = compared(runs(*times), OVER_TWO)
    ratios = [run[2] / run[4] for run in times]
    assert (ratio.low, ratio.high, ratio.is_interval) == (pytest.approx(min(ratios)), pytest.approx(max(ratios)), True)


def test_conditions_go_with_sides_or_make_sides():
    gpu = [having(record, host="there") for record in grid(backend="nccl", device="cuda")]
    found = compared([*grid(), *gpu], Baseline({"backend": "gloo"}))
    assert len(found) == 6
    assert len(compared([*grid(), *gpu])) == 6  # a backend never changes the work
    [(_, sides)] = compare_suites(tabulate_records([*grid(), *gpu])).items()
    assert sides.confounded == ["device", "host"]
    versions = [having(make_record(run=v), torch=v) for v in ("2.12.0", "2.13.0")]
    assert len(compared(versions, Baseline.parse("torch=2.12.0"))) == 1


def test_seeds_and_hosts_of_one_kind_are_repetitions():
    for runs in (("a", "a"), ("a", "b")):
        cells = zip(("n1", "n2"), (1e-3, 3e-3), runs, strict=True)
        records = [having(make_record(seconds=s, run=run), host=host, cpu="a") for host, s, run in cells]
        [(_, sides)] = compare_suites(tabulate_records(records)).items()
        [side] = sides.variants
        assert side.row["median_s"] == pytest.approx(2e-3)
        assert sides.pooled == {"host": ["n1", "n2"]}


def test_base_is_that_of_each_work():
    question = Question(comparisons=(Comparison(("world_size",), {"world_size": LEAST}),))
    sides = compare_suite(
        tabulate_records([make_record(1, 2), make_record(1, 4), make_record(5, 4), make_record(5, 8)]), question
    )
    assert [(side.row["world_size"], side.is_baseline) for side in sides.variants] == [
        (2, True),
        (4, False),
        (4, True),
        (8, False),
    ]


def test_missing_base_is_replaced_by_the_first_side_and_said():
    question = Question(comparisons=(Comparison(("dtype",), {"dtype": "float64"}),))
    records = [make_record(), make_record(started_at="2026-01-02")]
    records[1]["config"] = records[1]["config"] | {"dtype": "bfloat16"}
    sides = compare_suite(tabulate_records(records), question)
    assert sides.is_stand_in
    assert [side.name for side in sides.variants if side.is_baseline] == ["float32"]
    first = Question(comparisons=(Comparison(("dtype",), {"dtype": FIRST}),))
    assert not compare_suite(tabulate_records(records), first).is_stand_in


def test_more_work_counts():
    records = [make_rich_record("other", started_at="2026-01-01"), make_rich_record("other", started_at="2026-01-02")]
    for number, record in enumerate(records):
        record["config"]["dtype"] = f"{number}"
        record["cases"] = [record["cases"][1] | {"useful_flops": 1e9 * (number + 1)}]
    question = Question(comparisons=(Comparison(("dtype",), {"dtype": "0"}),))
    [ratio] = [each.speedup for each in compare_suite(tabulate_records(records), question).variants if each.speedup]
    assert ratio.value == pytest.approx(2)


def test_unusable_baseline_is_refused():
    table = tabulate_records(grid())
    for text in ("worldsize=2", "world_size=3"):
        with pytest.raises(BaselineError, match=text.split("=")[0]):
            require_baseline_rows(table, Baseline.parse(text))
    with pytest.raises(argparse.ArgumentTypeError):
        Baseline.parse("world_size")
    apart = tabulate_records([make_record(1, 2), make_record(5, 4)])
    assert "data_size" in explain_no_comparison(apart, OVER_TWO)
    assert explain_no_comparison(table, OVER_TWO) == ""


def test_every_label_of_a_question_is_told_in_one_part():
    for name, question in questions().items():
        parts = [
            *question.problem,
            *question.replicates,
            *{column for each in question.comparisons for column in each.factors},
        ]
        assert len(set(parts)) == len(parts), name
        assert {*question.scaling_columns, *filter(None, [question.panel_column])} <= {*question.problem}, name


def test_figure_has_ratios_their_bars_and_what_they_are(golden):
    notes = []
    for records, baseline in (
        (runs(MONDAY), OVER_TWO), (runs(MONDAY, TUESDAY), OVER_TWO),
        (runs(*({2: 2 + n, 4: 4 + n} for n in range(6))), OVER_TWO), ([job_in_turns(2.0, 9, 0.02)], None),
    ):  # fmt: skip
        table = tabulate_records(records)
        chart = speedups.show(table, baseline)["allreduce_speedup"]
        assert chart.points["low"].notna().all() == (len(records) != len(MONDAY) or baseline is None)
        notes.append(f"{chart.title}: {chart.note}")
    golden("\n".join(notes))


def test_figure_joins_sizes_in_order():
    table = tabulate_records(grid()[::-1])
    chart = charts(table, OVER_TWO)["allreduce_speedup"]
    assert chart.points["x"].tolist() == [2**20, 10 * 2**20, 100 * 2**20]
    assert chart.points["value"].tolist() == pytest.approx([0.5] * 3)


def test_scaling_beyond_the_cores_is_left_out_of_the_answer():
    records = [make_record(1, ranks, 1e-3 / ranks) for ranks in (2, 4, 8)]  # four cores
    table = tabulate_records(records)
    [(_, sides)] = compare_suites(table, OVER_TWO).items()
    assert [sides.is_beyond_cores(side) for side in sides.variants] == [False, False, True]
    answers = screen_of(table, OVER_TWO).answers
    assert ["8 ranks" in line for line in answers] == [False, True]
    assert answers[0].startswith("4 ranks")
    [(_, sides)] = compare_suites(tabulate_records([make_record(1, 8), make_record(1, 8, backend="mpi")])).items()
    assert not any(map(sides.is_beyond_cores, sides.variants))  # equal ranks compare


def timed(name, seconds, *, is_baseline=False, rounds=12, spread=0.0):
    """A variant that was timed in the rounds of one job."""
    wave = 1 + spread * np.sin(np.arange(rounds) * 2.4 + seconds)
    row = {"median_s": seconds, "useful_tflop_per_s": 0.0, "identical_runs": None}
    jobs = {"run": {"job": CaseTimes(seconds, seconds * wave)}}
    return Variant(row, 0, name, is_baseline=is_baseline, times_by_run=jobs)


@pytest.mark.parametrize(
    ("seconds", "rounds", "words", "starred"),
    [
        ((1.0, 0.5, 0.5), 12, [AHEAD, TIED], {"b", "c"}),
        ((1.0, 0.5, 0.3), 12, [AHEAD, AHEAD], {"c"}),
        ((1.0, 1.0, 1.0), 12, [TIED, TIED], set()),
        ((1.0, 0.5, 0.3), 6, [NOT_JUDGED, NOT_JUDGED], set()),
    ],
)
def test_leaders_are_those_that_none_is_ahead_of(seconds, rounds, words, starred):
    """Three variants need seven rounds."""
    own = [timed(name, s, is_baseline=name == "a", rounds=rounds) for name, s in zip("abc", seconds, strict=True)]
    standing = judge_fastest(list(add_speedups(own)))
    assert [word for _, word in standing.judgements] == words
    assert standing.leaders == starred


def job_of(**seconds):
    """A job whose cases, in ways that its first one is the baseline of, are interleaved in 12 rounds."""
    job = job_in_turns(2.0, 12, 0.02)
    base, fast = job["cases"]
    cases = []
    for number, (way, time) in enumerate(seconds.items()):
        rows = [[each * time / 1e-3 for each in rank] for rank in base["samples_s"]]
        cases.append((fast if number else base) | {"labels": {"way": way}, "samples_s": rows})
    return job | {"cases": cases}


def test_any_case_of_a_job_can_be_the_baseline():
    table = tabulate_records([job_of(even=4e-3, uneven=2e-3, lut=1e-3)])
    [(_, found)] = compare_suites(table, Baseline({"way": "uneven"})).items()
    speedups_found = {each.name: each.speedup for each in found.variants if each.speedup}
    assert {name: each.value for name, each in speedups_found.items()} == pytest.approx({"even": 0.5, "lut": 2.0})
    assert {(each.reference.name, each.basis) for each in speedups_found.values()} == {("uneven", "12 rounds")}
    assert [speedups_found[name].judgement for name in ("even", "lut")] == [BEHIND, AHEAD]


def test_bound_can_be_the_baseline_and_does_not_win():
    question = Question(
        comparisons=(Comparison(("way", "size"), {"way": "plain"}, bounds={"way": "limit"}),),
    )
    table = tabulate_records([job_of(plain=4e-3, fast=2e-3, limit=1e-3)])
    found = compare_suite(table, question, Baseline({"way": "limit"}))
    assert {each.name: each.speedup.value for each in found.variants if each.speedup} == pytest.approx(
        {"plain": 0.25, "fast": 0.5}
    )
    [standing] = found.standings.values()
    assert (standing.fastest.name, standing.is_ahead_of_all) == ("fast", True)


def test_curve_has_speedups_and_no_winner():
    question = Question(comparisons=(Comparison(("way",), {"way": "slow 1"}, is_curve=True),))
    found = compare_suite(tabulate_records([job_of(**{"slow 1": 1e-3, "slow 2": 2e-3, "slow 4": 4e-3})]), question)
    assert found.standings == {}
    assert sorted(each.speedup.value for each in found.variants if each.speedup) == pytest.approx([0.25, 0.5])


def test_speedup_over_runs_is_the_quotient_of_the_times_beside_it():
    jobs = [job_of(plain=1e-3, fast=0.65e-3), job_of(plain=3e-3, fast=5e-3)]
    table = tabulate_records([job | {"run": str(run)} for run, job in enumerate(jobs)])
    [(_, found)] = compare_suites(table).items()
    base, fast = found.variants
    assert fast.speedup.value == pytest.approx(base.row["median_s"] / fast.row["median_s"])
    assert fast.row["paired_speedup"] == pytest.approx(fast.speedup.value)
    assert fast.speedup.judgement == NOT_JUDGED


def test_variants_of_one_sweep_without_a_shared_run_have_no_speedup():
    """What kept the baseline from being measured may have slowed the other one down."""
    slow, plain = make_record(run="s"), make_record(run="s#2")
    slow["config"] = slow["config"] | {"dtype": "bfloat16"}
    question = Question(comparisons=(Comparison(("dtype",), {"dtype": "float32"}),))
    assert not any(each.speedup for each in compare_suite(tabulate_records([slow, plain]), question).variants)
    apart = compare_suite(tabulate_records([slow, plain | {"run": "other"}]), question)
    assert [each.speedup.judgement for each in apart.variants if each.speedup] == [NOT_JUDGED]


def test_how_cases_were_timed_is_no_comparison():
    """A default sweep and one of measure=quick: two problems, of which none is faster than the other."""
    records = [make_record(run=run, seconds=s) for run, s in (("default", 1e-3), ("quick", 3e-3))]
    records[1]["config"] = records[1]["config"] | {"measure": MEASURE | {"warmup_iterations": 2, "max_iterations": 20}}
    [(_, found)] = compare_suites(tabulate_records(records)).items()
    assert found.comparison is None
    assert found.problem_columns == ["warmup_iterations"]
    assert len(found.by_problem) == 2
    assert not any("×" in line for line in screen_of(tabulate_records(records)).answers)


def test_condition_that_differs_beside_the_factors_is_of_the_problem():
    """Two unlike hosts, each with two backends: each host has its baseline."""
    records = [
        having(make_record(backend=backend, seconds=seconds), host=host, cpu=host)
        for host, backend, seconds in (
            ("fast", "gloo", 10e-3), ("fast", "mpi", 5e-3), ("slow", "gloo", 1.0), ("slow", "mpi", 0.1),
        )
    ]  # fmt: skip
    [(_, found)] = compare_suites(tabulate_records(records), Baseline({"backend": "gloo"})).items()
    assert found.problem_columns == ["host"]
    values = {each.row["host"]: each.speedup.value for each in found.variants if each.speedup}
    assert values == pytest.approx({"fast": 2.0, "slow": 10.0})
