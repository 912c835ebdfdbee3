"""Bands, Amdahl's law, reasons, tables and plots of the same program on one device and on several."""

import json

import pytest
from analysis.cli import main
from analysis.suites.auto_shard import rows as scaling
from benchkit.statistics.intervals import FEWEST_SAMPLES
from benchkit.suites.auto_shard.workloads import Phase

from tests.support.markdown import section
from tests.support.records import make_record, tabulate_records, without, write_all
from tests.support.reports import NARROW, drawn, leave_out_plots, texts_of

SERIAL = {"resident": 0.1, "end_to_end": 0.2}
"""Of auto; the other shardings take so many times as long as it:"""
TIMES_AS_LONG = {"auto": 1.0, "axis0": 1.25, "dispatcher": 4.0}
LIMIT = 0.95
"""Of the ideal, what independent devices reach."""
ONE_S, FLOPS = 8e-3, 2.0 * 512**3
FIGURES = [f"auto_shard_{name}.png" for name in ("scaling", "phases", "shardings")]


SHARES = {
    ("resident", False): {"compute": 1.0, "communicate": 0.0},
    ("resident", True): {"compute": 0.6, "communicate": 0.4},
    ("end_to_end", False): {"create": 0.1, "compute": 0.8, "communicate": 0.0, "fetch": 0.1},
    ("end_to_end", True): {"create": 0.1, "compute": 0.4, "communicate": 0.3, "fetch": 0.2},
}
"""Of a step's time, by scope and whether it is sharded."""


def case(base, sharding, ranks, scope, seconds, baseline, work=1.0):
    """On so many of a job's ranks. baseline: the position of the case that it is compared with."""
    scaled = lambda share: [[share * seconds / 1e-3 * each for each in row] for row in base["samples_s"]]  # noqa: E731
    shares = SHARES[scope, ranks > 1]
    plan = {"plan": "x rows; w1 rows gathered, by rows; out rows", "work_share": 1.0, "latency_s": 1e-5}
    plan["creates_whole"] = False
    return base | {
        "labels": {"sharding": sharding, "ranks": ranks, "scope": scope}, "baseline": baseline, "ranks": ranks,
        "is_component": sharding == "independent", "payload_bytes": None, "bus_factor": None,
        "useful_flops": work * FLOPS, "executed_flops": work * FLOPS, "samples_s": scaled(1.0),
        "regions_s": {phase: scaled(share) for phase, share in shares.items()}, "details": plan if ranks > 1 else {},
    }  # fmt: skip


def shard_record(workload="matmul_512x512x512", counts=(1, 2, 4), slower=1.0, samples=FEWEST_SAMPLES, **config):
    """A job that follows Amdahl's law exactly, on several devices `slower` times as slow."""
    weak = config.get("scaling") == "weak"
    record = make_record(world_size=max(counts), samples=samples)
    [base] = record["cases"]
    cases = []
    for scope, serial in SERIAL.items():
        time = {n: ONE_S * (1 if weak else serial + (1 - serial) / n) * (1 if n == 1 else slower) for n in counts}
        shardings = {n: ("none",) if n == 1 else tuple(TIMES_AS_LONG) for n in counts}
        first = len(cases)
        for n in counts:
            work = n if weak else 1.0
            cases += [
                case(base, name, n, scope, time[n] * TIMES_AS_LONG.get(name, 1), first, work) for name in shardings[n]
            ]
            if n > 1 and scope == "resident":
                cases.append(case(base, "independent", n, scope, ONE_S / LIMIT, first, n))
    for position, each in enumerate(cases):
        each["baseline"] = each["baseline"] if each["baseline"] != position else None
    settings = {name: record["config"][name] for name in record["config"] if name not in ("data_size", "reduce_op")}
    settings |= {"suite": "auto_shard", "workload": workload, "scaling": "strong", "devices": list(counts)}
    settings |= {"engine": ["dtensor", "dispatcher"], "planner": ["auto", "axis0"], "workloads": {"cpu": [workload]}}
    record |= {"suite": "auto_shard", "cases": cases, "config": settings | config}
    return record | {"point_id": json.dumps([workload, counts, config])}


def lacking(record, name, status="skipped"):
    """The same job where a case did not fit; what was compared with it has no speedup."""
    nothing = {"status": status, "reason": "needs 32 GB, 24 GB there", "samples_s": [], "details": {}, "regions_s": {}}
    cases = [each | (nothing if named(each) == name else {}) for each in record["cases"]]
    return record | {"cases": cases}


def named(case):
    """Its labels: "auto 4 resident"."""
    return " ".join(map(str, case["labels"].values()))


@pytest.fixture(scope="module")
def table():
    return tabulate_records([shard_record(), shard_record("mlp_512x512x512", slower=1.5)])


def tables_of(*records):
    texts = texts_of(tabulate_records(list(records)))
    return {name: text for name, text in texts.items() if name.startswith("auto_shard")}


def table_of(*records):
    """The one table of Markdown that there is."""
    [text] = tables_of(*records).values()
    return text


def lines(text, title):
    """The rows of the section whose title begins so."""
    [full] = [line[3:] for line in text.splitlines() if line.startswith(f"## {title}")]
    [rows] = section(text, full).values()
    return rows


def row(spent, ranks=2, **changes):
    """A case in which phases take so many seconds."""
    settings = {"status": "ok", "scaling": "strong", "ranks": ranks, "workload": "matmul_64x64x64", "work_share": 1.0}
    settings |= {"latency_s": 0.0, "median_s": sum(spent.values())}
    return settings | {f"{phase}_s": seconds for phase, seconds in spent.items()} | changes


BASE = row({"create": 1.0, "compute": 8.0, "communicate": 0.0, "fetch": 1.0}, 1)
SLOW = {phase: {"create": 0.5, "compute": 4.0, "communicate": 0.0, "fetch": 0.5, phase: 9.0} for phase in Phase}
"""On two devices ideal but for one phase."""


@pytest.mark.parametrize(
    ("speedup", "word"),
    [(8, "near perfect"), (7, "near perfect"), (6.9, "good"), (5, "good"), (4.9, "poor"), (2, "poor"), (1.9, "none")],
)
def test_band_follows_gt_thresholds(speedup, word):
    assert scaling.band(speedup, 8, 1) == word
    assert scaling.band(speedup, 16, 2) == word


def test_more_than_ideal_is_neither_near_perfect_nor_predicted():
    assert scaling.band(5.34, 2, 1) == scaling.BEYOND
    text = table_of(shard_record(slower=0.1))
    assert {row["band"] for row in lines(text, "Why not more")} == {scaling.BEYOND}
    assert all(row["why not more"] for row in lines(text, "Why not more"))
    assert "More devices" not in text


def test_gain_measures_added_devices():
    assert [scaling.gain(speedup, 4, 2) for speedup in (1, 1.5, 2, 0.5)] == [0, 0.5, 1, -0.5]


@pytest.mark.parametrize("base", [1, 2])
@pytest.mark.parametrize("serial", [0.0, 0.07, 1.0])
def test_amdahl_recovers_serial_share(serial, base):
    relative = lambda n: serial + (1 - serial) / n  # noqa: E731
    speedups = {n: relative(base) / relative(n) for n in (4, 8)}
    assert scaling.serial_share(speedups, base) == pytest.approx(serial, abs=1e-12)
    assert scaling.amdahl(serial, 64, base) == pytest.approx(relative(base) / relative(64))


def test_serial_share_is_clamped_and_weighted():
    assert scaling.serial_share({2: 0.5}) == 1
    assert scaling.serial_share({2: 3.0}) == 0
    assert scaling.serial_share({2: 1 / 0.6, 4: 2.0}) == pytest.approx((0.5 * 0.1 + 0.75 * 0.25) / (0.5**2 + 0.75**2))


REASONS = {
    "communicate": {}, "communicate, by latency": {"latency_s": 5.0}, "fetch": {}, "create": {},
    "create, whole": {"creates_whole": True}, "create, unknown": {"creates_whole": float("nan")}, "compute": {},
    "compute, padded": {"work_share": 1.95}, "compute, uneven": {"work_share": 1.2},
}  # fmt: skip
"""What phase takes most, and what else is known."""


def test_reason_names_costliest_phase(golden):
    told = [scaling.reason(row(SLOW[name.split(",")[0]], **more), BASE, None) for name, more in REASONS.items()]
    slow = row(SLOW["compute"])
    told.append(scaling.reason(slow, BASE, {"scaling_efficiency": 0.7}))
    golden(
        "\n".join(f"{name}: {why}\n    {advice}" for name, (why, advice) in zip([*REASONS, "alone"], told, strict=True))
    )
    for reached in (0.95, float("nan"), None):  # independent devices are not to blame
        assert scaling.reason(slow, BASE, {"scaling_efficiency": reached}) == told[list(REASONS).index("compute")]


def test_reason_skips_small_losses_names_failures():
    assert scaling.reason(row({"create": 0.5, "compute": 4.2, "fetch": 0.5}), BASE, None) == ("", "")
    assert scaling.reason(row({"compute": 5.4}), BASE, None) != ("", "")
    assert scaling.reason(row({"compute": 4.7}), BASE, None) == scaling.BEYOND_ITS_IDEAL
    weak = row({"create": 1.0, "compute": 8.2, "fetch": 1.0}, scaling="weak")
    assert scaling.reason(weak, BASE, None) == ("", "")
    assert scaling.reason(weak | {"scaling": "strong"}, BASE, None) != ("", "")
    assert "between" in scaling.reason(row({"compute": 4.0}, median_s=9.0), BASE, None)[0]
    assert scaling.reason({"status": "oom"}, {}, None) == scaling.reason({"status": "skipped"}, {}, None)
    assert scaling.reason({"status": "crash"}, {}, None)[0] == "crash"
    assert "oom" in scaling.reason(row({"compute": 9.0}), BASE | {"status": "oom"}, None)[0]


def test_sections_of_table(golden, table):
    text = texts_of(table)["auto_shard.md"]
    parts = text.split("\n## ")
    phases, predicted = ([part for part in parts if part.startswith(title)] for title in ("Phases", "More devices"))
    golden("\n## ".join(part for part in parts if part not in (*phases, *predicted)), NARROW)
    first, second = lines(text, "resident")
    assert first["4 devices [ms (TFLOP/s)]"] == f"2.6 ({FLOPS / 2.6e-3 / 1e12:.3g})"
    assert [each["speedup on 4"].split()[0] for each in (first, second)] == ["3.077", "2.051"]


def test_summary_uses_geometric_mean_of_each_kind():
    names = ("matmul_64x512x512", "mlp_512x512x512", "relu_64x64")
    others = [shard_record(name, slower=3.0) for name in names]
    summary = lines(table_of(shard_record(), shard_record("matmul_64x64x64", slower=1.5), *others), "Summary")
    assert {row["kind"] for row in summary} == {"square", "batch", "mlp", "relu"}
    rows = {(row["scope"], row["devices"], row["sharding"]): row for row in summary if row["kind"] == "square"}
    assert len(rows) == len(summary) / 4 == 2 * (4 + 3)
    for sharding, longer in TIMES_AS_LONG.items():
        best = 1 / 0.325 / longer
        found = rows["resident", "4", sharding]
        shown = [float(found[name]) for name in ("average (geometric)", "min", "max", "share of the limit [%]")]
        mean = best / 1.5**0.5
        assert shown == pytest.approx([mean, best / 1.5, best, 100 * mean / 4 / LIMIT], rel=1e-3)
    assert rows["end_to_end", "2", "auto"]["share of the limit [%]"] == ""


def test_phases_cover_end_to_end_steps(table):
    rows = lines(texts_of(table)["auto_shard.md"], "Phases")
    assert [(row["sharding"], row["devices"]) for row in rows[:2]] == [("none", "1"), ("auto", "2")]
    shown = [float(rows[1][f"{phase} [ms]"]) for phase in (*Phase, "step")]
    assert shown == pytest.approx([0.48, 1.92, 1.44, 0.96, 4.8])


def test_prediction_covers_strong_scaling_only(table):
    first, second, *_ = lines(texts_of(table)["auto_shard.md"], "More devices")
    assert [float(each["serial share [%]"]) for each in (first, second)] == pytest.approx([10, 20])
    assert [name for name in first if "predicted" in name] == [f"speedup on {n} (predicted)" for n in (8, 16, 32, 64)]
    assert float(first["speedup on 64 (predicted)"]) == pytest.approx(1 / (0.1 + 0.9 / 64), rel=1e-3)
    base_of_two = lines(table_of(shard_record(counts=(2, 4, 8))), "More devices")
    assert float(base_of_two[0]["serial share [%]"]) == pytest.approx(10)
    weak = table_of(shard_record(scaling="weak", slower=2.0))
    assert "## More devices" not in weak
    assert {row["speedup"] for row in lines(weak, "Why not more")} == {"1", "2"}  # half the rate of 2 and 4 devices


def test_failed_case_shows_status():
    most = lacking(lacking(shard_record(), "none 1 resident"), "auto 4 end_to_end", "oom")
    lost = shard_record("relu_64x64") | {"status": "crash", "cases": [], "error": {"message": "it fell", "rank": 1}}
    table = tabulate_records([most, shard_record("mlp_512x512x512"), lost])
    text = texts_of(table)["auto_shard.md"]
    first, _, last = lines(text, "resident")
    assert (first["1 device [ms (TFLOP/s)]"], first["speedup on 2"]) == ("skipped", "-")
    assert first["2 devices [ms (TFLOP/s)]"].startswith("4.4 ")
    assert set(last.values()) == {"relu_64x64", "crash", "-"}
    found = {(row["workload"][:4], row["scope"], row["sharding"], row["devices"]): row["why not more"]
             for row in lines(text, "Why not more")}  # fmt: skip
    assert found["matm", "resident", "none", "1"] == found["matm", "end_to_end", "auto", "4"] == "out of memory"
    assert "skipped" in found["matm", "resident", "auto", "2"]
    assert found["relu", "", "", ""] == "crash"
    assert set(drawn(table, *FIGURES)[1]) == set(FIGURES)
    assert "crash" in table_of(lost)


def test_few_samples_have_no_interval():
    [row] = lines(table_of(shard_record(samples=4)), "end_to_end")
    assert row["speedup on 2"] == "1.67"


def test_table_merges_runs():
    again = shard_record(slower=2.0) | {"started_at": "2026-02-01T00:00:00.000+00:00", "run": "b"}
    text = table_of(again, shard_record() | {"run": "a"})
    quotient = 1 / ((0.55 + 1.1) / 2)  # of the medians over runs
    assert lines(text, "Why not more")[0]["speedup"] == f"{quotient:.4g}"
    [row] = lines(text, "resident")
    assert row["speedup on 2"] == f"{quotient:.2f}"
    lost = again | {"status": "crash", "cases": [], "error": {"message": "it fell", "rank": 1}}
    found = lines(table_of(lost, shard_record()), "Why not more")
    assert [row["why not more"] for row in found if row["scope"] == ""] == ["crash"]
    assert len(found) > 1


def test_tables_of_groups_are_shown_by_one_name(tmp_path, monkeypatch, capsys):
    leave_out_plots(monkeypatch)
    halves = shard_record(dtype="bfloat16") | {"run": "b"}
    assert main([str(write_all(tmp_path, [shard_record(), halves])), "--show", "auto_shard.md"]) == 0
    told = capsys.readouterr()
    assert told.out.count("# The same program") == 2
    assert not told.err


def test_tables_split_by_scaling_and_by_base_ranks():
    assert list(tables_of(shard_record(), shard_record(scaling="weak"), make_record())) == [
        "auto_shard_scaling-strong.md", "auto_shard_scaling-weak.md"
    ]  # fmt: skip
    assert list(tables_of(shard_record(), shard_record(counts=(2, 4)) | {"run": "b"})) == [
        "auto_shard_base_ranks-1.md", "auto_shard_base_ranks-2.md"
    ]  # fmt: skip
    assert tables_of(make_record()) == {}


def test_table_falls_back_to_first_sharding():
    record = shard_record()
    autos = [position for position, each in enumerate(record["cases"]) if each["labels"]["sharding"] == "auto"]
    record["cases"] = without(record["cases"], *autos)
    text = table_of(record)
    assert {row["sharding"] for row in lines(text, "Why not more")} == {"axis0"}
    assert "## Auto" not in text


def test_plots_match_table_rows(table):
    _, figures = drawn(table, *FIGURES)
    panels = figures["auto_shard_scaling.png"].axes
    assert [panel.get_title() for panel in panels] == ["resident", "end_to_end"]
    shown = [(list(line.get_xdata()), list(line.get_ydata())) for line in panels[0].get_lines()]
    assert ([1, 2, 4], pytest.approx([1, 1 / 0.55, 1 / 0.325])) in shown
    assert any(x == pytest.approx(y) and (x[0], x[-1]) == pytest.approx((1, 4)) for x, y in shown)  # ideal
    [at, fitted] = next((x, y) for x, y in shown if len(x) > 3 and x != pytest.approx(y))
    assert (at[-1], fitted[-1]) == pytest.approx((4, 1 / 0.325))
    phases = figures["auto_shard_phases.png"].axes[0]
    assert [patch.get_width() for patch in phases.patches][:2] == pytest.approx([0.8, 0.48])  # of creating
    assert [text.get_text() for text in phases.get_yticklabels()][:3] == ["1 device", "auto x2", "axis0 x2"]
    compared = figures["auto_shard_shardings.png"]
    assert compared.axes[0].get_xscale() == "log"
    assert [entry.get_text() for entry in compared.legends[0].get_texts()] == list(TIMES_AS_LONG)
    assert "4 devices" in compared.get_suptitle()


def test_weak_scaling_is_plotted_in_percent():
    table = tabulate_records([shard_record(scaling="weak", slower=2.0)])
    figure = drawn(table, FIGURES[0])[1][FIGURES[0]]
    shown = [list(line.get_ydata()) for line in figure.axes[0].get_lines()]
    assert pytest.approx([100, 50, 50]) in shown
    assert [100] * 50 in shown
