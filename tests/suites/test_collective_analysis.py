"""Latency and bandwidth of a link: fits to times that are known, predictions, the report."""

import random

import numpy as np
import pytest
from analysis.__main__ import main
from analysis.report.discover import draw_all
from analysis.report.sentences import describe
from analysis.suites.collective import fit as link
from analysis.suites.collective import plot as link_plot
from analysis.suites.collective import table as link_tables
from analysis.suites.collective.algorithms import ALGORITHMS, messages
from analysis.suites.collective.fit import Line, fit, left_out, line_through

from tests.support.records import having, make_record, tabulate_records, write_all

SIZES = [4.0**exponent for exponent in range(1, 13)]
LATENCY_S, GB_PER_S = 100e-6, 1.25


def times(line, sizes=SIZES):
    return [line.seconds(size) for size in sizes]


def test_fit_recovers_line():
    found = fit(SIZES, times(Line(LATENCY_S, 1e-9 / GB_PER_S)))
    [line] = found.lines
    assert line.latency_s == pytest.approx(LATENCY_S)
    assert 1e-9 / line.byte_s == pytest.approx(GB_PER_S)
    assert line.half_bandwidth_bytes == pytest.approx(LATENCY_S * GB_PER_S * 1e9)
    assert found.r_squared(SIZES, times(line)) == pytest.approx(1)
    assert all(abs(error) < 1e-9 for error in left_out(SIZES, times(line))[1:-1])


def test_noisy_line_is_recovered():
    draw = random.Random(1)
    noisy = [time * (1 + draw.uniform(-0.1, 0.1)) for time in times(Line(LATENCY_S, 1e-9))]
    [line] = fit(SIZES, noisy).lines
    assert line.latency_s == pytest.approx(LATENCY_S, rel=0.1)
    assert 1e-9 / line.byte_s == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("sigma", [0.2, 0.3, 0.5])
def test_noisy_fit_is_unbiased_and_covers_truth(sigma):
    draw, made, trials = np.random.default_rng(0), Line(LATENCY_S, 1e-9 / GB_PER_S), 600
    lines = [line_through(SIZES, draw.lognormal(np.log(times(made)), sigma)) for _ in range(trials)]
    assert np.median([1e-9 / line.byte_s for line in lines]) == pytest.approx(GB_PER_S, rel=0.02)
    assert np.median([line.latency_s for line in lines]) == pytest.approx(LATENCY_S, rel=0.02)
    for part, true in (((1, 0), made.latency_s), ((0, 1), made.byte_s), ((2, 2e6), 2 * made.seconds(1e6))):
        intervals = [line.interval(*part) for line in lines]
        assert 0.92 <= sum(low <= true <= high for low, high in intervals) / trials <= 0.98


def test_tiny_latency_has_upper_bound_only():
    draw, latency_s, trials = np.random.default_rng(0), 1e-6, 200
    large = [2.0**exponent for exponent in range(20, 28)]
    exact = times(Line(latency_s, 1e-9), large)
    lines = [line_through(large, draw.lognormal(np.log(exact), 0.1)) for _ in range(trials)]
    intervals = [line.interval(1, 0) for line in lines]
    assert all(high > line.latency_s for line, (_, high) in zip(lines, intervals, strict=True))
    assert sum(low == 0 for low, _ in intervals) > 0.95 * trials
    assert sum(high > latency_s for _, high in intervals) > 0.95 * trials


def test_two_points_have_no_interval():
    line = line_through([1e3, 1e6], [1e-4, 1e-3])
    assert line.seconds(1e3) == pytest.approx(1e-4)
    assert line.interval(1, 0) is None


@pytest.mark.parametrize("count", [6, 7, 8, 12])
def test_noise_rarely_adds_second_line(count):
    draw = np.random.default_rng(0)
    sizes, line = [4.0**exponent for exponent in range(1, 1 + count)], Line(LATENCY_S, 1e-9)
    trials = [[time * draw.normal(1, 0.05) for time in times(line, sizes)] for _ in range(300)]
    assert sum(len(fit(sizes, each).lines) == 2 for each in trials) <= 15


def test_protocol_change_adds_second_line():
    eager, rendezvous = Line(20e-6, 2e-9), Line(300e-6, 0.5e-9)
    switch = 4.0**9
    measured = [(eager if size < switch else rendezvous).seconds(size) for size in SIZES]
    found = fit(SIZES, measured)
    assert [line.low_bytes for line in found.lines] == [0, switch]
    assert 1e-9 / found.lines[1].byte_s == pytest.approx(2)
    assert max(map(abs, found.errors(SIZES, measured))) < 1e-6


def test_fit_thins_many_sizes_evenly(monkeypatch):
    assert link.spread(SIZES) == list(range(len(SIZES)))
    many = [float(size) for size in range(1, 10_001)]
    kept = link.spread(many)
    assert (kept[0], kept[-1]) == (0, len(many) - 1)
    assert link.MOST / 2 < len(kept) <= link.MOST
    monkeypatch.setattr(link, "MOST", 20)
    fine = [2.0**exponent for exponent in np.arange(4, 24, 0.25)]
    eager, rendezvous = Line(20e-6, 2e-9), Line(300e-6, 0.5e-9)
    switch = fine[link.spread(fine)[10]]
    measured = [(eager if size < switch else rendezvous).seconds(size) for size in fine]
    found = fit(fine, measured)
    assert [line.low_bytes for line in found.lines] == [0, switch]
    assert max(map(abs, found.errors(fine, measured))) < 1e-6
    apart = left_out(fine, measured)
    told = [place for place, error in enumerate(apart) if error is not None]
    assert told == link.spread(fine)[1:-1]


def test_report_notes_thinned_sizes(monkeypatch):
    records = collective_records(counts=(2,))
    [text] = link_tables.write(tabulate_records(records)).values()
    assert link_tables.THINNED not in text
    for module in (link, link_tables):
        monkeypatch.setattr(module, "MOST", 8)
    [text] = link_tables.write(tabulate_records(records)).values()
    assert link_tables.THINNED in text


def test_fit_has_no_negative_slope_or_latency():
    falling = [1e-3 - 1e-11 * size for size in SIZES]
    assert line_through(SIZES, falling).byte_s == 0
    convex = [1e-12 * size**1.5 for size in SIZES]
    assert line_through(SIZES, convex).latency_s >= 0


def test_left_out_flags_outlier_but_not_ends():
    measured = times(Line(LATENCY_S, 1e-9))
    measured[6] *= 2
    apart = left_out(SIZES, measured)
    assert apart[0] is None
    assert apart[-1] is None
    assert apart[6] < -link.FAR_OFF
    assert left_out(SIZES[:3], measured[:3]) == [None] * 3


@pytest.mark.parametrize("collective", [name for name in ALGORITHMS if name != "send_recv"])
def test_messages_recover_generating_algorithm(collective):
    message = Line(10e-6, 1e-9)
    for name, cost in ALGORITHMS[collective].items():
        times = {
            n: [(size, cost(n)[0] * message.latency_s + cost(n)[1] * size * message.byte_s) for size in SIZES]
            for n in (2, 3, 4, 6)
        }
        best = messages(collective, times)[0]
        assert best.off < 1e-9
        expected = cost(64)[0] * message.latency_s + cost(64)[1] * message.byte_s * 2**20
        predicted = {each.algorithm: each.seconds(collective, 64, 2**20) for each in messages(collective, times)}
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


def test_table_halves_ping_pong_and_splits_ops(tmp_path):
    records = collective_records()
    for record in collective_records(counts=(2,)):
        record["config"] |= {"collective": "send_recv"}
        records.append(record | {"point_id": f"ping {record['point_id']}"})
    for record in collective_records(counts=(2,)):
        record["config"] |= {"reduce_op": "max"}
        records.append(record | {"point_id": f"max {record['point_id']}"})
    written = link_tables.write(tabulate_records(records))
    assert set(written) == {"link_reduce_op-max.md", "link_reduce_op-sum.md"}
    assert written["link_reduce_op-max.md"].startswith("# What the link does (reduce_op-max)\n")
    figure = link_plot.draw(tabulate_records(records), None)["link_reduce_op-max.png"]()
    assert figure.get_suptitle().split() == ["Collectives:", "time", "over", "payload", "(reduce_op-max)"]
    cells = [
        line.split("|") for line in written["link_reduce_op-sum.md"].splitlines() if line.startswith("| send_recv")
    ]
    ring = next(line.split("|") for line in written["link_reduce_op-sum.md"].splitlines() if "all_reduce" in line)
    value = lambda cell: float(cell.split()[0])  # noqa: E731
    assert value(cells[0][4]) == pytest.approx(value(ring[4]) / 2, rel=1e-3)
    assert value(cells[0][5]) == pytest.approx(value(ring[5]), rel=1e-3)


def test_long_latency_has_no_exponent():
    line = Line(14.6e-3, 1e-9, covariance=((1e-7, 0.0), (0.0, 1e-22)))
    assert "e+" not in link_tables.latency_us(line)


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


def of_first_line(records):
    """Latency, bandwidth and the size at half of it, as the table has them."""
    [text] = link_tables.write(tabulate_records(records)).values()
    return [cell.strip() for cell in next(line for line in text.splitlines() if "all_reduce" in line).split("|")][4:7]


def test_report_has_fits_and_plot(tmp_path, capsys):
    records = collective_records()
    far = records[5]["cases"][0]
    far["samples_s"] = [[2 * sample for sample in row] for row in far["samples_s"]]
    folder = write_all(tmp_path / "records", records)
    assert main([str(folder)]) == 0
    text = (folder / "analysis" / "link.md").read_text()
    assert "| all_reduce   |       4 |" in text
    assert "More than 25% off" in text
    assert "all_reduce on 2 ranks, 4 KiB: the line is 4" in text
    assert "below what was measured; the line through the others is" in text
    assert (folder / "analysis" / "link.png").stat().st_size > 10_000


def test_plot_shows_units_and_hardware():
    records = [having(record, cpu="a processor") for record in collective_records(counts=(2,))]
    figure = dict(draw_all(tabulate_records(records), None))["link.png"]
    figure.canvas.draw()
    [axis] = figure.axes
    texts = {text.get_text() for text in axis.get_yticklabels()}
    assert {"100 µs", "1 ms", "10 ms"} <= texts
    assert figure.get_supxlabel().endswith("\non a processor")
    assert axis.get_legend() is not None  # one line needs no legend beside the panel


def test_uncertain_fit_does_not_stretch_axis(monkeypatch):
    monkeypatch.setattr(Line, "interval", lambda self, *_: (-1.0, 1e6))
    figure = dict(draw_all(tabulate_records(collective_records(counts=(2,))), None))["link.png"]
    low, high = figure.axes[0].get_ylim()
    assert low > 1e-6
    assert high < 1


def test_predictions_are_marked_and_ranked(tmp_path, capsys):
    folder = write_all(tmp_path / "records", collective_records())
    assert main(["predict", str(folder), "--world-size", "8,1024"]) == 0
    out = capsys.readouterr().out
    assert "Predicted, not measured" in out
    assert "8 ranks, predicted [ms]" in out
    first = next(line for line in out.splitlines() if line.startswith("all_reduce"))
    assert "ring" in first
    largest = next(line for line in out.splitlines() if " ring " in line and "16 MiB" in line).split()
    expected = 1e3 * (2046 * 20e-6 + 2046 / 1024 * SIZES[-1] * 1e-9)
    value, low, high = (float(word.strip("[],")) for word in largest[-3:])
    assert value == pytest.approx(expected, rel=0.02)
    assert low <= float(f"{value:.3g}") <= high
    assert "order says nothing" not in out
    assert "do not rely" not in "".join(line for line in out.splitlines() if line.startswith("- all_reduce, ring"))


def test_ambiguous_algorithms_get_unranked_span(tmp_path, capsys):
    folder = write_all(tmp_path / "records", collective_records(counts=(2,)))
    assert main(["predict", str(folder), "--world-size", "64"]) == 0
    out = capsys.readouterr().out
    names = ", ".join(ALGORITHMS["all_reduce"])
    assert f"- all_reduce: the times on 2 ranks alone do not tell {names} apart; their order says nothing." in out
    spans = [line for line in out.splitlines() if "any of the first 4" in line]
    assert len(spans) == 3
    seconds = [cost(64)[0] / cost(2)[0] * 40e-6 + cost(64)[1] / cost(2)[1] * SIZES[-1] * 1e-9
               for cost in ALGORITHMS["all_reduce"].values()]  # fmt: skip
    low, high = (float(word) for word in spans[-1].split()[-3::2])
    assert low == pytest.approx(1e3 * min(seconds), rel=0.01)
    assert high == pytest.approx(1e3 * max(seconds), rel=0.01)


def test_noise_keeps_more_algorithms_likely():
    draw = np.random.default_rng(0)
    clear, hidden = (
        {n: [(size, 1e-9 * size * cost * noise()) for size in SIZES] for n, cost in ((2, 1.0), (4, 1.5))}
        for noise in (lambda: draw.lognormal(0, 0.01), lambda: draw.lognormal(0, 1.0))
    )
    assert {each.algorithm for each in messages("all_reduce", clear) if each.likely} == {
        "ring", "recursive halving and doubling",
    }  # fmt: skip
    assert len([each for each in messages("all_reduce", hidden) if each.likely]) == 4


def test_too_fast_prediction_is_flagged(tmp_path, capsys):
    records = collective_records(counts=(2,)) + collective_records(counts=(4,))
    for record in records[len(SIZES) :]:  # four ranks share two cores
        samples = record["cases"][0]["samples_s"]
        record["cases"][0]["samples_s"] = [[30 * each for each in row] for row in samples]
    folder = write_all(tmp_path / "records", records)
    assert main(["predict", str(folder), "--world-size", "8"]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("- all_reduce, ring:")]
    assert len(told) == 1
    assert "predicted for" in told[0]
    assert "on 8 ranks, but 4 ranks took" in told[0]


def test_noise_flags_no_prediction(tmp_path, capsys):
    records, draw = collective_records(counts=(2, 4)), np.random.default_rng(1)
    for record in records:
        factor, samples = draw.lognormal(0, 0.3), record["cases"][0]["samples_s"]
        record["cases"][0]["samples_s"] = [[factor * each for each in row] for row in samples]
    folder = write_all(tmp_path / "records", records)
    assert main(["predict", str(folder), "--world-size", "8"]) == 0
    assert "- all_reduce, ring" not in capsys.readouterr().out


def test_ping_pong_flags_no_prediction(tmp_path, capsys):
    records = collective_records(counts=(2,))
    for number, record in enumerate(records):
        record["config"] |= {"collective": "send_recv"}
        samples = record["cases"][0]["samples_s"]
        record["cases"][0]["samples_s"] = [[(1 + 0.1 * (number % 2)) * each for each in row] for row in samples]
    folder = write_all(tmp_path / "records", records)
    assert main(["predict", str(folder), "--world-size", "8"]) == 0
    assert "\n- " not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere", "--world-size", "8"], 2, "nowhere: no such folder or file"),
        ([".", "--world-size", "1"], 2, "--world-size 1: allowed are numbers >= 2"),
        (["here", "--world-size", "8"], 1, "no collective in three sizes or more"),
    ],
)
def test_predict_refuses_invalid_input(arguments, code, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path / "here", collective_records(sizes=SIZES[:2]))
    assert main(["predict", *arguments]) == code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_r_squared_explains_log_variance():
    made = fit(SIZES, times(Line(LATENCY_S, 1e-9)))
    assert made.r_squared(SIZES, times(Line(LATENCY_S, 1e-9))) == pytest.approx(1.0)
    measured = [time * (1.3 if number % 2 else 0.8) for number, time in enumerate(times(Line(LATENCY_S, 1e-9)))]
    logs, expected = np.log(measured), np.log([made.seconds(size) for size in SIZES])
    explained = 1 - np.mean((logs - expected) ** 2) / np.var(logs)
    assert made.r_squared(SIZES, measured) == pytest.approx(explained)
    assert made.r_squared(SIZES[:3], [1e-3] * 3) is None


def test_unmodeled_collective_has_no_messages():
    assert messages("barrier", {2: [(1024, 1e-3)]}) == []


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


def test_link_uses_back_to_back_cases_only():
    records = []
    for size in (1.0, 4.0, 16.0, 64.0):
        record = make_record(size, 2, 1e-3 * size, suite="collective")
        record["config"] |= {"collective": "all_reduce"}
        [case] = record["cases"]
        alone = case | {
            "labels": {"timing": "latency"},
            "samples_s": [[9 * each for each in row] for row in case["samples_s"]],
        }
        record["cases"] = [alone, case | {"labels": {"timing": "back_to_back"}}]
        records.append(record)
    [(_, [series])] = link_tables.groups_of(tabulate_records(records))
    assert series.times_s == pytest.approx([1e-3, 4e-3, 16e-3, 64e-3])


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


@pytest.mark.parametrize(
    "counts", [(5, 7), *(pytest.param(counts, marks=pytest.mark.slow) for counts in ((12,), (2, 1, 1, 8), (1, 11)))]
)
def test_sizes_of_jobs_make_same_report_as_sweep(tmp_path, capsys, counts):
    """A row is a row: link, prediction and growth do not ask which job it is from."""
    sweep = collective_records(counts=(2,))
    texts = []
    for name, records in (("sweep", sweep), ("jobs", as_jobs(sweep, *counts))):
        table = tabulate_records(records)
        assert list(table["data_size"]) == [size / 2**20 for size in SIZES]
        folder = write_all(tmp_path / name, records)
        assert main([str(folder), "--output-dir", str(tmp_path / f"{name}_report")]) == 0
        assert main(["predict", str(folder), "--world-size", "8"]) == 0
        printed = capsys.readouterr().out
        report = tmp_path / f"{name}_report"
        kept = [(report / "link.md").read_text(), (report / "analysis.txt").read_text()]
        kept += [printed[printed.index("Predicted, not measured") :], *sorted(path.name for path in report.iterdir())]
        texts.append(kept)
    assert texts[0] == texts[1]


def test_sizes_of_job_are_not_ranked():
    [job] = as_jobs(collective_records(counts=(2,)), len(SIZES))
    table = tabulate_records([job])
    for name in ("contest", "regret", "paired_speedup", "alone_speedup"):
        assert table[name].isna().all(), name
    text = describe(table)
    assert "fastest of" not in text
    assert "4 B to 16 MiB" in text
