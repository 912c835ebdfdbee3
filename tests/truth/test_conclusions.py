"""What is concluded of problems whose truth is planted: nothing of ranges, alike in all outputs, and rarely wrong."""

import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from analysis.report import speedups
from analysis.screen.screen import screen_of
from analysis.table.variants import compare_suites
from benchkit.statistics.judgement import AHEAD, BEHIND, NOT_JUDGED
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.planted.claims import KINDS, tally_of
from tests.support.planted.conclusions import (
    FACTORS,
    LAYOUTS,
    NOISES,
    ROUNDS_TAKEN,
    RUNS_TAKEN,
    Cell,
    Planted,
    plant,
    problem_of,
    records_of,
    table_of,
    tabulate,
)
from tests.support.planted.outputs import disagreements
from tests.support.records import having, make_record, tabulate_records

PLAIN = {"deadline": None, "derandomize": True, "database": None, "phases": [Phase.generate]}
"""The same examples in every run, no judgement on time, and no search for a smaller one: each takes a second."""
cells = st.builds(Cell, *map(st.sampled_from, ([*LAYOUTS], [*NOISES], FACTORS, ROUNDS_TAKEN, RUNS_TAKEN)))
seeds = st.integers(0, 2**16)
FEW = 4
"""Problems of a drawn cell: an even number, as each host has as many."""


def variants_of(table):
    """Of the only suite."""
    [variants] = compare_suites(table).values()
    return variants


def judgements(table, layout):
    found = variants_of(table).variants
    return {(problem_of(layout, each.row), each.name): each.speedup.judgement for each in found if each.speedup}


def has_intervals(cell):
    """Whether anything may be claimed: by the chance that equal variants differ alike in all rounds, or in all runs."""
    layout = LAYOUTS[cell.layout]
    independent = cell.runs if cell.runs > 1 else cell.rounds * layout.is_interleaved
    return not layout.sweeps and 2 * 0.5**independent <= 0.05 / (len(layout.names) - 1)


@settings(max_examples=6, **PLAIN)
@given(cells, seeds)
def test_ranges_claim_nothing_and_each_problem_has_a_baseline_of_its_own(cell, seed):
    variants = variants_of(table_of(plant(cell, FEW, seed)))
    assert len(variants.by_problem) == FEW
    for number, own in variants.by_problem.items():
        [base] = [each for each in own if each.is_baseline]
        assert {each.row["host"] for each in own} == {base.row["host"]}
        assert {
            (each.speedup.reference.name, each.speedup.reference.problem_number) for each in own if each is not base
        } == {(base.name, number)}
        if not has_intervals(cell):
            standing = variants.standings[number]
            words = {each.speedup.judgement for each in own if each.speedup}
            assert words | {word for _, word in standing.judgements} == {NOT_JUDGED}
            assert (standing.is_ahead_of_all, standing.leaders) == (False, set())


@settings(max_examples=3, **PLAIN)
@given(cells, seeds, st.floats(1e-3, 1e3))
def test_names_order_and_unit_of_time_change_no_judgement(cell, seed, factor):
    planted = plant(cell, FEW, seed)
    table, names = table_of(planted), planted.layout.names
    renamed = dict(zip(names, ("hare", "snail", "fox", "ant", "owl", "cat", "bee", "dog"), strict=False))
    column = "strategy" if planted.layout.is_interleaved else "backend"
    other = table.assign(**{column: table[column].map(renamed)}).sample(frac=1, random_state=seed)
    scaled = Planted(cell, planted.speeds, planted.levels + math.log(factor), planted.times_s * factor)
    told = judgements(table, planted.layout)
    assert judgements(other, planted.layout) == {(n, renamed[name]): word for (n, name), word in told.items()}
    assert judgements(table_of(scaled), planted.layout) == told


@settings(max_examples=2, **PLAIN)
@given(cells, seeds, st.sampled_from((2, 4, 12)))
def test_outputs_agree(cell, seed, problems):
    with TemporaryDirectory() as folder:
        table = tabulate(records_of(plant(cell, problems, seed)))
        assert disagreements(table, Path(folder), has_page=False) == []


@pytest.mark.parametrize(
    ("cell", "seed"),
    [
        (Cell("eight", "own drift", 1.03, 20), 1),  # ahead, unclear, not judged
        (Cell("three", "5 %", 1.03, 50), 2),  # ahead, tied, unclear
        (Cell("three", "5 %", 1.3, 3), 0),  # ranges
        (Cell("two hosts", "5 %", 1.3, 1), 0),  # an answer per host
    ],
    ids=str,
)
def test_page_agrees(cell, seed, tmp_path):
    assert disagreements(tabulate(records_of(plant(cell, 4, seed))), tmp_path) == []


def test_table_for_counting_is_that_of_records():
    for cell in (Cell("three", "5 %", 1.1), Cell("two hosts", "own drift", 1.3, 2, 2)):
        planted = plant(cell, FEW)
        made, quick = (variants_of(table) for table in (tabulate(records_of(planted)), table_of(planted)))
        ends = [[each.speedup and each.speedup.interval_or_range for each in found.variants] for found in (made, quick)]
        assert ends[0] == ends[1]


MANY = 400


@pytest.mark.parametrize(
    "cell",
    [
        Cell("two", "10 %", rounds=6),
        Cell("two", "heavy tails", 1.1, 6),
        Cell("three", "own drift", rounds=20),
        Cell("eight", "10 %", rounds=12),
        Cell("eight", "5 %", rounds=50),
        Cell("two", "runs differ by 5 %", 1.1, 3, 6),
    ],
    ids=str,
)
def test_few_claims_are_false(cell):
    tally = tally_of(plant(cell, MANY))
    assert tally.problems == MANY
    assert {kind: tally.share_false(kind) for kind in KINDS if tally.excess(kind) > 3} == {}


def test_clear_differences_are_named():
    for factor, rounds in ((1.3, 10), (2.0, 6)):
        assert tally_of(plant(Cell("two", "5 %", factor, rounds), MANY)).power >= 0.9


# What readers found


def job(cases, suite="ring_attention", number=0, run=None, more=({}, {}), **config):
    """A record of cases in the rounds of one job: seconds by name, the baseline first."""
    made = make_record(samples=2, suite=suite, started_at=f"2026-01-01T00:00:{number:02}", run=run)
    common = {name: made["config"][name] for name in made["config"] if name not in ("data_size", "dtype", "reduce_op")}
    label = "strategy" if suite == "ring_attention" else "implementation"
    found = [
        case_of(made, {label: name}, times) | {"baseline": 0 if place else None}
        for place, (name, times) in enumerate(cases.items())
    ]
    return made | {"config": common | {"suite": suite} | config, "cases": found, "point_id": f"{number} {config}"}


def case_of(made, labels, times):
    [case] = make_record(samples=2)["cases"]
    ranks, num = made["world_size"], len(times)
    return case | {
        "labels": labels, "samples_s": [[*map(float, times)]] * ranks, "start_offsets_s": [[0.0] * num] * ranks,
        "blocks": [1] * num, "elapsed_s": float(sum(times)), "payload_bytes": None, "bus_factor": None,
    }  # fmt: skip


def times(seconds, rounds=12, seed=0, spread=0.02):
    return seconds * np.random.default_rng(seed).lognormal(0, spread, rounds)


def told_of(records):
    """The speedup of each variant of a table, and whose it is over, by the cells of its row."""
    variants = variants_of(tabulate_records(records))
    columns = [*variants.problem_columns, *variants.comparison.factors]
    return {
        tuple(each.row[name] for name in columns if name not in variants.shared): (
            round(each.speedup.value, 2), *(each.speedup.reference.row[name] for name in variants.problem_columns),
            each.speedup.reference.name, each.speedup.judgement,
        )
        for each in variants.variants
        if each.speedup
    }  # fmt: skip


def of_backends(gains, **changes):
    return [
        make_record(10.0, 2, 1e-2 / gain, backend=name, started_at=f"2026-01-01T00:00:{number:02}", **changes)
        for number, (name, gain) in enumerate(gains.items())
    ]


def test_two_unlike_hosts_have_a_baseline_each():
    hosts = {"fast": {"gloo": 1, "ucc": 2}, "slow": {"gloo": 0.01, "ucc": 0.1}}
    records = [having(made, host=host, cpu=host) for host, gains in hosts.items() for made in of_backends(gains)]
    assert told_of(records) == {
        ("fast", "ucc"): (2.0, "fast", "gloo", NOT_JUDGED),
        ("slow", "ucc"): (10.0, "slow", "gloo", NOT_JUDGED),
    }


def test_two_commits_have_a_baseline_each():
    commits = {"a" * 12: {"gloo": 1, "ucc": 2}, "b" * 12: {"gloo": 1.2, "ucc": 3.6}}
    records = [having(made, git_commit=commit) for commit, gains in commits.items() for made in of_backends(gains)]
    assert told_of(records) == {
        ("a" * 12, "ucc"): (2.0, "a" * 12, "gloo", NOT_JUDGED),
        ("b" * 12, "ucc"): (3.0, "b" * 12, "gloo", NOT_JUDGED),
    }


def test_all_numbers_of_devices_have_one_baseline():
    made = make_record(world_size=4, suite="auto_shard", samples=2)
    speeds = {(2, "auto"): 1.9, (2, "axis0"): 1.8, (4, "auto"): 3.5, (4, "axis0"): 3.3}
    cases = [
        case_of(made, {"workload": "matmul", "sharding": sharding, "ranks": ranks, "scope": "resident"}, taken)
        | {"ranks": ranks, "useful_flops": 1e9, "baseline": 0 if place else None}
        for place, ((ranks, sharding), taken) in enumerate(
            (key, times(0.1 / speed, 20, place)) for place, (key, speed) in enumerate(speeds.items())
        )
    ]
    found = told_of([made | {"cases": cases}])
    assert {over for _, over, _ in found.values()} == {"2 devices auto"}
    assert {key: (value, word) for key, (value, _, word) in found.items()} == {
        (2, "axis0"): (pytest.approx(1.8 / 1.9, rel=0.02), BEHIND),
        (4, "auto"): (pytest.approx(3.5 / 1.9, rel=0.02), AHEAD),
        (4, "axis0"): (pytest.approx(3.3 / 1.9, rel=0.02), AHEAD),
    }


def shown(records):
    """The standings of a table, the texts in its map of the fastest, and its first screen."""
    table = tabulate_records(records)
    charts = speedups.show(table, None)
    texts = [text for name in charts if name.endswith("_winner") for text in charts[name].points["text"]]
    return variants_of(table).standings.values(), texts, screen_of(table)


def test_three_rounds_have_no_winner():
    settings = {"even": 98e-3, "balanced": 20e-3, "zigzag": 21e-3}
    records = [
        job({name: times(s, 3, n) for name, s in settings.items()}, number=n, seq_len=1024 * (n + 1)) for n in range(2)
    ]
    standings, texts, screen = shown(records)
    assert {word for each in standings for _, word in each.judgements} == {NOT_JUDGED}
    assert [text.split("\n")[0] for text in texts] == ["balanced"] * 2
    assert not re.search(r"ahead|tied|\*", " ".join([*texts, *screen.answers, screen.grid.table().markdown()]))


def test_points_apart_have_no_winner():
    standings, _, screen = shown(of_backends({"gloo": 1, "ucc": 10, "mpi": 100}))
    [standing] = standings
    assert (standing.fastest.name, standing.leaders, {word for _, word in standing.judgements}) == (
        "mpi", set(), {NOT_JUDGED},
    )  # fmt: skip
    assert not re.search(r"ahead|tied|\*", " ".join([*screen.answers, screen.grid.table().markdown()]))


def numbers_in(text):
    return [float(number) for number in re.findall(r"(?<![\w.])\d+\.\d+", text)]


def test_each_line_on_a_collective_has_its_own_numbers():
    records = []
    for title, slower in (("all_gather", 1), ("all_reduce", 20)):
        for ranks in (2, 4):
            for size in (1.0, 10.0):
                made = make_record(size, ranks, suite="collective", title=title)
                of_timing = {"latency": 1e-3, "back_to_back": 2e-3 * ranks}
                made["cases"] = [
                    make_record(size, ranks, size * slower * s)["cases"][0] | {"labels": {"timing": timing}}
                    for timing, s in of_timing.items()
                ]
                made["config"] |= {"collective": title, "suite": "collective"}
                records.append(made | {"point_id": f"{title} {ranks} {size}"})
    table = tabulate_records(records)
    lines = {line.partition(":")[0]: numbers_in(line) for line in screen_of(table).answers}
    rows = table[(table["timing"] == "back_to_back") & (table["data_size"] == 10)]
    busbw = {f"{row.title}, {row.world_size} ranks": row.busbw_gb_per_s for row in rows.itertuples()}
    latency = {name: 20.0 if "reduce" in name else 1.0 for name in busbw}
    assert lines == {name: pytest.approx([latency[name], busbw[name]], rel=0.01) for name in busbw}


def test_causal_and_other_attention_are_judged_apart():
    records = [
        job({"even": times(0.08, seed=1), "zigzag": times(0.08 / gain, seed=2)}, number=n, causal=causal)
        for n, (causal, gain) in enumerate({True: 1.26, False: 0.67}.items())
    ]
    found = told_of(records)
    assert {causal: (value, word) for (causal, _), (value, *_, word) in found.items()} == {
        True: (pytest.approx(1.26, rel=0.03), AHEAD),
        False: (pytest.approx(0.67, rel=0.03), BEHIND),
    }
    answers = screen_of(tabulate_records(records)).answers
    assert sorted(max(numbers_in(line.partition("×")[0])[-1:]) for line in answers) == pytest.approx(
        [0.67, 1.26], rel=0.03
    )


def test_arms_and_variables_are_no_replicates():
    arms, in_arm = {"plain": 1.0, "set:x=1": 1.3}, {"id": "c", "position": 0}
    records = [
        make_record(seconds=1e-3 * slower, run=f"{pair} {arm}", comparison=in_arm | {"arm": arm, "pair": pair})
        for pair in range(1, 7)
        for arm, slower in arms.items()
    ]
    assert told_of(records) == {("set:x=1",): (0.77, "plain", NOT_JUDGED)}
    tree = {"Ring": 1e-3, "Tree": 3e-3}
    records = [having(make_record(seconds=s, run=name), variables={"NCCL_ALGO": name}) for name, s in tree.items()]
    assert told_of(records) == {("NCCL_ALGO=Tree",): (0.33, "NCCL_ALGO=Ring", NOT_JUDGED)}


def test_runs_without_the_baseline_do_not_count():
    slow, right = (
        job(
            {"even": times(scale * 0.02, 60, 1), "zigzag": times(scale * 0.02 / 1.3, 60, 2)}, number=n, run=f"s#{n + 1}"
        )
        for n, scale in enumerate((10, 1))
    )
    slow["cases"][0] |= {"status": "oom", "reason": "no memory", "samples_s": [], "start_offsets_s": None, "blocks": []}
    assert told_of([slow, right]) == told_of([right])
    [(value, over, word)] = told_of([slow, right]).values()
    assert (value, over, word) == (pytest.approx(1.3, rel=0.02), "even", AHEAD)


def test_a_winner_by_medians_alone_has_its_means_told():
    spiky = times(0.01, 100, 2) * np.where(np.arange(100) % 16 == 5, 100, 1)
    records = [job({"even": times(0.02, 100, 1), "zigzag": spiky})]
    [(value, _, word)] = told_of(records).values()
    assert (value, word) == (pytest.approx(2, rel=0.02), AHEAD)
    by_means = spiky.mean() / times(0.02, 100, 1).mean()
    assert any(
        number == pytest.approx(by_means, rel=0.01)
        for line in screen_of(tabulate_records(records)).caveats
        for number in numbers_in(line)
    )
