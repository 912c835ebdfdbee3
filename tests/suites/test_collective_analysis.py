"""Latency and bandwidth of a link: fits to times that are known, predictions, the report."""

import random

import numpy as np
import pytest
from analysis.cli import main
from analysis.suites.collective import fit as link
from analysis.suites.collective.algorithms import ALGORITHMS, fit_algorithms
from analysis.suites.collective.fit import FittedLine, fit, leave_one_out_errors, line_through

from tests.support.records import having, make_record, tabulate_records, write_all
from tests.support.reports import NARROW, describe, drawn, texts_of

SIZES = [4.0**exponent for exponent in range(1, 13)]
LATENCY_S, GB_PER_S = 100e-6, 1.25
NAMED = "all_reduce_time_vs_datasize.png"
ROUNDING = {r"\d\.\d+e-1\d": "0"}


def times(line, sizes=SIZES):
    return [line.seconds(size) for size in sizes]


def test_fit_recovers_line():
    found = fit(SIZES, times(FittedLine(LATENCY_S, 1e-9 / GB_PER_S)))
    [line] = found.lines
    assert line.latency_s == pytest.approx(LATENCY_S)
    assert 1e-9 / line.byte_s == pytest.approx(GB_PER_S)
    assert line.half_bandwidth_bytes == pytest.approx(LATENCY_S * GB_PER_S * 1e9)
    assert found.r_squared(SIZES, times(line)) == pytest.approx(1)
    assert all(abs(error) < 1e-9 for error in leave_one_out_errors(SIZES, times(line))[1:-1])


@pytest.mark.parametrize("sigma", [0.2, 0.5])
def test_noisy_fit_is_unbiased_and_covers_truth(sigma):
    draw, made, trials = np.random.default_rng(0), FittedLine(LATENCY_S, 1e-9 / GB_PER_S), 600
    lines = [line_through(SIZES, draw.lognormal(np.log(times(made)), sigma)) for _ in range(trials)]
    assert np.median([1e-9 / line.byte_s for line in lines]) == pytest.approx(GB_PER_S, rel=0.02)
    assert np.median([line.latency_s for line in lines]) == pytest.approx(LATENCY_S, rel=0.02)
    for part, true in (((1, 0), made.latency_s), ((0, 1), made.byte_s), ((2, 2e6), 2 * made.seconds(1e6))):
        intervals = [line.interval(*part) for line in lines]
        assert 0.92 <= sum(low <= true <= high for low, high in intervals) / trials <= 0.98


def test_tiny_latency_has_upper_bound_only():
    draw, latency_s, trials = np.random.default_rng(0), 1e-6, 200
    large = [2.0**exponent for exponent in range(20, 28)]
    exact = times(FittedLine(latency_s, 1e-9), large)
    lines = [line_through(large, draw.lognormal(np.log(exact), 0.1)) for _ in range(trials)]
    intervals = [line.interval(1, 0) for line in lines]
    assert all(high > line.latency_s for line, (_, high) in zip(lines, intervals, strict=True))
    assert sum(low == 0 for low, _ in intervals) > 0.95 * trials
    assert sum(high > latency_s for _, high in intervals) > 0.95 * trials


def test_two_points_have_no_interval():
    line = line_through([1e3, 1e6], [1e-4, 1e-3])
    assert line.seconds(1e3) == pytest.approx(1e-4)
    assert line.interval(1, 0) is None


@pytest.mark.parametrize("count", [6, 12])
def test_noise_rarely_adds_second_line(count):
    draw = np.random.default_rng(0)
    sizes, line = [4.0**exponent for exponent in range(1, 1 + count)], FittedLine(LATENCY_S, 1e-9)
    trials = [[time * draw.normal(1, 0.05) for time in times(line, sizes)] for _ in range(300)]
    assert sum(len(fit(sizes, each).lines) == 2 for each in trials) <= 15


def test_protocol_change_adds_second_line():
    eager, rendezvous = FittedLine(20e-6, 2e-9), FittedLine(300e-6, 0.5e-9)
    switch = 4.0**9
    measured = [(eager if size < switch else rendezvous).seconds(size) for size in SIZES]
    found = fit(SIZES, measured)
    assert [line.low_bytes for line in found.lines] == [0, switch]
    assert 1e-9 / found.lines[1].byte_s == pytest.approx(2)
    assert max(map(abs, found.errors(SIZES, measured))) < 1e-6


def test_fit_thins_many_sizes_evenly(monkeypatch):
    assert link.choose_left_out(SIZES) == list(range(len(SIZES)))
    many = [float(size) for size in range(1, 10_001)]
    kept = link.choose_left_out(many)
    assert (kept[0], kept[-1]) == (0, len(many) - 1)
    assert link.MOST / 2 < len(kept) <= link.MOST
    monkeypatch.setattr(link, "MOST", 20)
    fine = [2.0**exponent for exponent in np.arange(4, 24, 0.25)]
    eager, rendezvous = FittedLine(20e-6, 2e-9), FittedLine(300e-6, 0.5e-9)
    switch = fine[link.choose_left_out(fine)[10]]
    measured = [(eager if size < switch else rendezvous).seconds(size) for size in fine]
    found = fit(fine, measured)
    assert [line.low_bytes for line in found.lines] == [0, switch]
    assert max(map(abs, found.errors(fine, measured))) < 1e-6
    apart = leave_one_out_errors(fine, measured)
    told = [place for place, error in enumerate(apart) if error is not None]
    assert told == link.choose_left_out(fine)[1:-1]


def test_left_out_flags_outlier_but_not_ends():
    measured = times(FittedLine(LATENCY_S, 1e-9))
    measured[6] *= 2
    apart = leave_one_out_errors(SIZES, measured)
    assert apart[0] is None
    assert apart[-1] is None
    assert apart[6] < -link.FAR_OFF
    assert leave_one_out_errors(SIZES[:3], measured[:3]) == [None] * 3


@pytest.mark.parametrize("collective", [name for name in ALGORITHMS if name != "send_recv"])
def test_messages_recover_generating_algorithm(collective):
    message = FittedLine(10e-6, 1e-9)
    for name, cost in ALGORITHMS[collective].items():
        times = {
            n: [(size, cost(n)[0] * message.latency_s + cost(n)[1] * size * message.byte_s) for size in SIZES]
            for n in (2, 3, 4, 6)
        }
        best = fit_algorithms(collective, times)[0]
        assert best.max_error < 1e-9
        expected = cost(64)[0] * message.latency_s + cost(64)[1] * message.byte_s * 2**20
        predicted = {each.algorithm: each.seconds(collective, 64, 2**20) for each in fit_algorithms(collective, times)}
        assert predicted[name] == pytest.approx(expected)


def test_algorithm_costs_match_literature():
    assert ALGORITHMS["all_reduce"]["ring"](8) == (14, 1.75)
    assert ALGORITHMS["all_reduce"]["recursive doubling"](8) == (3, 3)
    assert ALGORITHMS["all_gather"]["ring"](8) == (7, 0.875)
    assert ALGORITHMS["broadcast"]["tree"](5) == (3, 3)


def collective_records(name="all_reduce", counts=(2, 4), sizes=SIZES):
    """A ring's times."""
    records = []
    for n in counts:
        latencies, over = ALGORITHMS[name]["ring"](n)
        for size in sizes:
            seconds = latencies * 20e-6 + over * size * 1e-9
            made = make_record(size / 2**20, n, seconds, spread=0.01)
            made["config"] |= {"suite": "collective", "collective": name}
            records.append(made | {"suite": "collective"})
    return records


def cells_of(text, collective):
    """The cells of the first line of a collective: latency, bandwidth, the size at half of it, …"""
    line = next(line for line in text.splitlines() if line.startswith(f"| {collective}"))
    return [cell.strip() for cell in line.split("|")][4:-1]


def links(records):
    return {name: text for name, text in texts_of(tabulate_records(records)).items() if name.startswith("link")}


def of_first_line(records):
    [text] = links(records).values()
    return cells_of(text, "all_reduce")[:3]


def slower(record, factor):
    """The same case with times that are so many times as long."""
    [case] = record["cases"]
    return record | {"cases": [case | {"samples_s": [[factor * each for each in row] for row in case["samples_s"]]}]}


def test_table_halves_ping_pong_and_splits_ops():
    records = collective_records(sizes=SIZES[::2])
    for change in ({"collective": "send_recv"}, {"reduce_op": "max"}):
        for record in collective_records(counts=(2,), sizes=SIZES[::2]):
            record["config"] |= change
            records.append(record | {"point_id": f"{change} {record['point_id']}"})
    written = links(records)
    assert set(written) == {"link_reduce_op-max.md", "link_reduce_op-sum.md"}
    value = lambda cell: float(cell.split()[0])  # noqa: E731
    one_way, ring = (cells_of(written["link_reduce_op-sum.md"], name) for name in ("send_recv", "all_reduce"))
    assert value(one_way[0]) == pytest.approx(value(ring[0]) / 2, rel=1e-3)
    assert value(one_way[1]) == pytest.approx(value(ring[1]), rel=1e-3)


def test_table_shows_intervals_and_bounds():
    draw, sizes = np.random.default_rng(3), [4.0**exponent for exponent in range(8, 14)]
    records = collective_records(counts=(2,), sizes=sizes)
    for record in records:
        samples = record["cases"][0]["samples_s"]
        factor = draw.lognormal(0, 0.2)
        record["cases"][0]["samples_s"] = [[factor * each for each in row] for row in samples]
    latency, bandwidth, half = of_first_line(records)
    assert latency.startswith("< ")
    value, low, high = (float(word.strip("[],")) for word in bandwidth.split())
    assert low < value < high
    assert half == ""
    latency, bandwidth, half = of_first_line(collective_records(counts=(2,), sizes=SIZES))
    assert latency.startswith("40 [")
    assert bandwidth.startswith("1 [")
    assert half == "39.06 KiB"
    level = [
        make_record(size / 2**20, 2, 1e-3 * (1.01 - 0.02 * (number % 2)), suite="collective")
        for number, size in enumerate(SIZES[:6])
    ]
    for record in level:
        record["config"] |= {"suite": "collective", "collective": "all_reduce"}
    assert of_first_line(level)[1].startswith("> ")


def test_link_has_fits_and_what_is_far_off(golden):
    records = collective_records()
    records[5] = slower(records[5], 2)
    [text] = links(records).values()
    golden(text, NARROW | ROUNDING)


def test_link_uses_back_to_back_cases_without_exponents():
    """14.6 ms and 1 GB/s."""
    records, draw = [], random.Random(1)
    for size in SIZES:
        seconds = (14.6e-3 + size * 1e-9) * (1 + draw.uniform(-0.01, 0.01))
        record = make_record(size / 2**20, 2, seconds, suite="collective")
        record["config"] |= {"collective": "all_reduce"}
        [case] = record["cases"]
        alone = slower(record, 9)["cases"][0] | {"labels": {"timing": "latency"}}
        records.append(record | {"cases": [alone, case | {"labels": {"timing": "back_to_back"}}]})
    latency, bandwidth, _ = of_first_line(records)
    assert float(latency.split()[0]) == pytest.approx(14600, rel=0.02)
    assert "e+" not in latency
    assert float(bandwidth.split()[0]) == pytest.approx(1, rel=0.2)


def test_plot_shows_units_hardware_and_certain_part(monkeypatch):
    monkeypatch.setattr(FittedLine, "interval", lambda self, *_: (-1.0, 1e6))  # which stretches no axis
    records = [having(record, cpu="a processor") for record in collective_records(counts=(2,))]
    figure = drawn(tabulate_records(records), "link.png")[1]["link.png"]
    figure.canvas.draw()
    [axis] = figure.axes
    assert {"100 µs", "1 ms", "10 ms"} <= {text.get_text() for text in axis.get_yticklabels()}
    assert figure.get_supxlabel().replace("\n", " ").endswith("; on a processor")
    assert figure.legends
    low, high = axis.get_ylim()
    assert 1e-6 < low < high < 1


@pytest.fixture
def predict(tmp_path, capsys):
    def predicted(records, world_size):
        folder = write_all(tmp_path / "records", records)
        assert main(["predict", str(folder), "--world-size", world_size]) == 0
        return capsys.readouterr().out

    return predicted


def test_predictions_are_marked_and_ranked(predict, golden):
    out = predict(collective_records(), "8,1024")
    other = "tree", "recursive"  # as good as each other but for rounding
    golden("\n".join(line for line in out.splitlines() if not any(name in line for name in other)), NARROW | ROUNDING)
    rows = [line for line in out.splitlines() if line.startswith("all_reduce")]
    assert " ring " in rows[0]
    largest = next(line for line in rows if " ring " in line and "16 MiB" in line).split()
    expected = 1e3 * (2046 * 20e-6 + 2046 / 1024 * SIZES[-1] * 1e-9)
    value, low, high = (float(word.strip("[],")) for word in largest[-3:])
    assert value == pytest.approx(expected, rel=0.02)
    assert low <= value <= high
    assert notes(out) == []


def notes(out):
    return [line for line in out.splitlines() if line.startswith("- ")]


def test_ambiguous_algorithms_get_unranked_span(predict, golden):
    out = predict(collective_records(counts=(2,)), "64")
    golden("\n".join(notes(out)))
    spans = [line for line in out.splitlines() if "any of the first 4" in line]
    assert len(spans) == 3
    seconds = [cost(64)[0] / cost(2)[0] * 40e-6 + cost(64)[1] / cost(2)[1] * SIZES[-1] * 1e-9
               for cost in ALGORITHMS["all_reduce"].values()]  # fmt: skip
    low, high = (float(word) for word in spans[-1].split()[-3::2])
    assert (low, high) == pytest.approx((1e3 * min(seconds), 1e3 * max(seconds)), rel=0.01)


def test_noise_keeps_more_algorithms_likely():
    draw = np.random.default_rng(0)
    clear, hidden = (
        {n: [(size, 1e-9 * size * cost * noise()) for size in SIZES] for n, cost in ((2, 1.0), (4, 1.5))}
        for noise in (lambda: draw.lognormal(0, 0.01), lambda: draw.lognormal(0, 1.0))
    )
    assert {each.algorithm for each in fit_algorithms("all_reduce", clear) if each.is_plausible} == {
        "ring", "recursive halving and doubling",
    }  # fmt: skip
    assert len([each for each in fit_algorithms("all_reduce", hidden) if each.is_plausible]) == 4


def test_too_fast_prediction_is_flagged(predict, golden):
    shared = [slower(record, 30) for record in collective_records(counts=(4,))]  # four ranks on two cores
    told = notes(predict([*collective_records(counts=(2,)), *shared], "8"))
    assert len(told) == 1 + len(ALGORITHMS["all_reduce"])
    golden(next(line for line in told if line.startswith("- all_reduce, ring:")))


@pytest.mark.parametrize("name", ["all_reduce", "send_recv"])
def test_noise_flags_no_prediction(predict, name):
    draw = np.random.default_rng(1)
    records = [slower(record, draw.lognormal(0, 0.3)) for record in collective_records(counts=(2, 4))]
    for record in records:
        record["config"] |= {"collective": name}
    assert not [line for line in notes(predict(records, "8")) if "ring" in line or name == "send_recv"]


@pytest.mark.parametrize(
    ("place", "ranks", "code"), [("nowhere", "8", 2), (".", "1", 2), ("here", "8", 1)]
)  # the last has two sizes
def test_predict_refuses_invalid_input(place, ranks, code, tmp_path, capsys, monkeypatch, golden):
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path / "here", collective_records(sizes=SIZES[:2]))
    assert main(["predict", place, "--world-size", ranks]) == code
    golden(capsys.readouterr().err)


def test_r_squared_explains_log_variance():
    made = fit(SIZES, times(FittedLine(LATENCY_S, 1e-9)))
    assert made.r_squared(SIZES, times(FittedLine(LATENCY_S, 1e-9))) == pytest.approx(1.0)
    measured = [time * (1.3 if number % 2 else 0.8) for number, time in enumerate(times(FittedLine(LATENCY_S, 1e-9)))]
    logs, expected = np.log(measured), np.log([made.seconds(size) for size in SIZES])
    explained = 1 - np.mean((logs - expected) ** 2) / np.var(logs)
    assert made.r_squared(SIZES, measured) == pytest.approx(explained)
    assert made.r_squared(SIZES[:3], [1e-3] * 3) is None


def test_unmodeled_collective_has_no_messages():
    assert fit_algorithms("barrier", {2: [(1024, 1e-3)]}) == []


def test_line_clamps_latency_and_slope_at_zero():
    """With one of both at 0 the other is a geometric mean."""
    sizes, convex = [1.0, 2.0, 4.0], [1.0, 4.0, 16.0]
    line = line_through(sizes, convex, low_bytes=7.0)
    assert (line.latency_s, line.low_bytes) == (0.0, 7.0)
    assert line.byte_s == pytest.approx(2.0)
    level = line_through(sizes, [4.0, 2.0, 1.0])
    assert level.byte_s == 0.0
    assert level.latency_s == pytest.approx(2.0)
    assert level.interval(1, 0)[0] < 2.0 < level.interval(1, 0)[1]


def test_two_size_clusters_get_one_line():
    sizes = [1.0, *(1e9 + index for index in range(100))]
    found = fit(sizes, [1e-5 + 1e-9 * size for size in sizes])
    assert len(found.lines) == 1


def as_jobs(records, *counts):
    """The same measurements, so many after another as the sizes of one job; a single one stays as it is."""
    left, jobs = list(records), []
    for count in counts:
        taken, left = left[:count], left[count:]
        sizes = [record["config"]["data_size"] for record in taken]
        cases = [
            case | {"labels": {"data_size": size}}
            for record, size in zip(taken, sizes, strict=True)
            for case in record["cases"]
        ]
        config = taken[0]["config"] | {"data_size": sizes}
        job = taken[0] | {"config": config, "cases": cases, "point_id": f"job of {sizes}"}
        jobs.append(job if count > 1 else taken[0])
    assert not left
    return jobs


def test_sizes_of_jobs_make_same_report_as_sweep():
    """A row is a row: link and growth do not ask which job it is from."""
    sweep = collective_records(counts=(2,))
    found = []
    for records in (sweep, as_jobs(sweep, 2, 1, 9)):
        table = tabulate_records(records)
        assert list(table["data_size"]) == [size / 2**20 for size in SIZES]
        found.append((texts_of(table), describe(table), drawn(table)[0]))
    assert found[0] == found[1]


def test_sizes_of_job_are_not_ranked():
    [job] = as_jobs(collective_records(counts=(2,)), len(SIZES))
    table = tabulate_records([job])
    for name in ("contest", "regret", "paired_speedup", "alone_speedup"):
        assert table[name].isna().all(), name
    assert "fastest" not in describe(table)


def test_figures_call_settings_what_the_screen_does():
    records = [make_record(size, suite="collective", title="all_reduce") for size in (1, 4)]
    for record in records:
        record["config"] |= {"suite": "collective", "collective": "all_reduce", "async_op": True}
        [case] = record["cases"]
        record["cases"] = [case | {"labels": {"timing": name}} for name in ("latency", "back_to_back")]
    _, figures = drawn(tabulate_records(records), NAMED)
    [legend] = figures[NAMED].legends
    assert [text.get_text() for text in legend.get_texts()] == ["2 ranks, back to back", "2 ranks, latency"]
