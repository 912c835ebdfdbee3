"""Square matrix products: dtypes, what is left out beforehand, the check of the product, and the table by share."""

import csv
import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from benchkit.api import products
from benchkit.api.sizes import FLOAT8, FLOAT8S
from benchkit.errors import InvalidResult
from benchkit.suites.matmul_lut import cases
from benchkit.suites.matmul_lut import cases as forecast
from benchkit.suites.matmul_lut.suite import MatmulLutConfig

from tests.support import devices, fakes
from tests.support.cli import Cli
from tests.support.configs import made
from tests.support.records import having, make_record, tabulate_records
from tests.support.reports import drawn, texts_of

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def rank(device=CPU, seconds=(), shortage=lambda needed_bytes: ""):
    measured = SimpleNamespace(index=0, world_size=1, seed=0, device=device, memory_shortage=shortage)
    measured.seconds_of = lambda *calls, turns: [[each] for each in seconds[: len(calls)]]
    return measured


def config(sizes, dtype="float32", **changes):
    settings = {"bg_streams": 0, "timeout_s": 600.0, "measure": fakes.plan(warmup_iterations=1)}
    return made(MatmulLutConfig, sizes=sizes, dtype=dtype, **(settings | changes))


@pytest.mark.parametrize(
    ("reason", "needed"),
    [("", [20 * 16**2, 20 * 16**2 + 12 * 8**2]), ("needs more", [20 * 16**2, 20 * 8**2])],
    ids=["sizes that fit count together", "a skipped size holds nothing"],
)
def test_memory_is_asked_for_by_size(reason, needed):
    asked = []
    cases.cases_of(config([16, 8]), rank(shortage=lambda size: asked.append(size) or reason))
    assert asked == needed


def test_size_without_time_is_skipped(monkeypatch):
    """A call of 64 takes 2 s here and one of 128 takes 16 s; each case is called at least four times."""
    monkeypatch.setattr(forecast, "PROBED", 64)
    built = cases.cases_of(config([32, 128, 64], timeout_s=20.0), rank(seconds=[2.0]))
    assert [bool(case.skip) for case in built] == [False, True, False]
    for timeout_s, fits in ((66.0, True), (64.5, False)):  # 1 s for the first size, 64 s for the other
        late = cases.cases_of(config([32, 128], timeout_s=timeout_s), rank(seconds=[2.0]))[1].skip
        assert (late == "") == fits


def test_sizes_that_launching_bounds_are_warned_of_on_gpus(monkeypatch):
    """One call takes 1 s at least here, and one of 32 takes 2 s."""
    monkeypatch.setattr(forecast, "PROBED", 32)
    monkeypatch.setattr(torch, "Generator", devices.Generator)
    warnings = []
    for device in (devices.META, CPU):
        built = cases.cases_of(config([16, 48]), rank(device, seconds=[2.0, 1.0]))
        warnings.append([len(case.warnings) for case in built])
    assert warnings == [[1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("mode", "calls", "fewest"), [("loop", "auto", 2 + 4), ("loop", 10, 2 + 20), ("graph", 1, 4 + 2)]
)
def test_fewest_calls_counts_checks_and_capture(mode, calls, fewest):
    plan = fakes.plan(mode=mode, warmup_iterations=1, calls_per_sample=calls)
    assert forecast.fewest_calls(plan) == fewest


def test_factors_are_drawn_on_device(monkeypatch):
    monkeypatch.setattr(torch, "Generator", devices.Generator)
    monkeypatch.setattr(products, "require_rows", lambda *given: None)
    kind = cases.matmul_here("float32", devices.META)
    with devices.Copies() as copies:
        fakes.verify(cases.matmul(16, kind, config([16]), rank(devices.META)))
    assert copies.from_host == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", *FLOAT8S])
def test_timed_factors_are_random_normal(dtype, monkeypatch):
    """Before a check and after it, since -1, 0 and 1 make a GPU at its power limit faster; a check is exact."""
    monkeypatch.setattr(cases, "first_reason", lambda reason: reason)
    kind = cases.matmul_here(dtype, CPU)
    held = []
    keep = replace(
        kind,
        multiply=lambda left, right, out: (
            held.append([each.double().clone() for each in (left, right)]),
            kind.multiply(left, right, out),
        ),
    )
    case = cases.matmul(48, keep, config([48], dtype), rank())
    case.step()
    fakes.verify(case)
    case.step()
    for timed, checked in ((held[0], held[1]), (held[2], held[1])):
        for normal, exact in zip(timed, checked, strict=True):
            assert 0.9 < normal.std() < 1.1
            assert set(exact.unique().tolist()) == {-1, 0, 1}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", *FLOAT8S])
def test_wrong_product_is_found(dtype, monkeypatch):
    """Products of float8 are verified on the CPU, too, where torch has them."""
    monkeypatch.setattr(cases, "first_reason", lambda reason: reason)
    [case] = cases.cases_of(config([48], dtype), rank())
    fakes.verify(case)
    broken = replace(cases.matmul_here(dtype, CPU), multiply=lambda left, right, out: out.fill_(1))
    with pytest.raises(InvalidResult, match=r"element \[\d+, \d+\]"):
        fakes.verify(cases.matmul(48, broken, config([48]), rank()))


@pytest.mark.parametrize(("device", "flag"), [(CUDA, False), (CPU, True)])
def test_gpu_rounds_half_precision_once(device, flag, monkeypatch):
    flags = SimpleNamespace(allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True)
    monkeypatch.setattr(torch.backends.cuda, "matmul", flags)
    details = cases.matmul_here("float16", device).details
    assert set(vars(flags).values()) == {flag}
    assert details == ({} if flag else {"reduced_precision_reduction": False})


def test_missing_float8_is_unavailable(monkeypatch):
    def refuse(*given, **options):
        raise RuntimeError("compute capability >= 9.0\nat f")

    monkeypatch.setattr(torch, "_scaled_mm", refuse)
    monkeypatch.setattr(cases, "first_reason", lambda reason: reason)
    [reason] = {case.unavailable for case in cases.cases_of(config([16, 32], FLOAT8), rank())}
    assert reason.endswith("compute capability >= 9.0")


@pytest.mark.parametrize("dtype", FLOAT8S)
def test_float8_accumulates_as_its_name_says(dtype, monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "_scaled_mm", lambda *given, **options: asked.append(options["use_fast_accum"]))
    cases.SquareProduct(cases.matmul_here(dtype, CPU), 16, seed=0).step()
    assert asked == [dtype.endswith("_fast")]


@pytest.mark.slow
def test_float8_products_are_timed(cli: Cli):
    done = cli("+suite=matmul_lut", "dtype=float8_e4m3fn", "sizes=[32,64]", "measure=few", "hardware.slowdown=1")
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert [case["status"] for case in record["cases"]] == ["ok", "ok"]
    assert {case["details"]["product_dtype"] for case in record["cases"]} == {"bfloat16"}


def test_background_products_begin_and_end_together(monkeypatch):
    """Each other stream waits for the stream that is timed, which at last waits for all of them."""
    cuda = fakes.FakeGraphs()
    for name in ("Stream", "stream", "current_stream"):
        monkeypatch.setattr(f"torch.cuda.{name}", getattr(cuda, name))
    multiply = torch.mm
    monkeypatch.setattr("torch.mm", lambda *args, out: cuda.calls.append("mm") or multiply(*args, out=out))
    kind = cases.matmul_here("float32", CPU)
    case = cases.matmul(4, kind, config([4], bg_streams=2), rank())
    case.step()
    assert (case.work.useful_flops, case.work.executed_flops) == (None, 3 * 2 * 4**3)
    beside = ["side waits for main", "on side", "mm"]
    assert cuda.calls == [*beside, *beside, "mm", *["main waits for side"] * 2]


def lut_records():
    """Products of two sizes under three shares of a processor."""
    records = []
    for slowdown in (1.0, 2.0, 10.0):
        record = make_record()
        [base] = record["cases"]
        record["config"] |= {"suite": "matmul_lut", "sizes": [64, 128], "bg_streams": 0}
        record["config"].pop("data_size")
        record["config"]["hardware"]["slowdown"] = slowdown
        cases = [
            base | {
                "labels": {"size": size}, "useful_flops": 2.0 * size**3, "payload_bytes": None, "bus_factor": None,
                "samples_s": [[sample * slowdown * size / 64 for sample in row] for row in base["samples_s"]],
            }
            for size in (64, 128)
        ]  # fmt: skip
        record = having(record, cpu="a processor") | {"suite": "matmul_lut", "cases": cases, "world_size": 1}
        slowed = {"mechanism": "cgroup", "asked": [slowdown], "measured": [slowdown]}
        records.append(record | {"point_id": f"{slowdown}", "slowdown": slowed})
    return records


def tables(*records):
    """Each table: its comments, and its rows."""
    found = {}
    for name, text in texts_of(tabulate_records(list(records))).items():
        lines = text.splitlines()
        rows = csv.DictReader(io.StringIO("\n".join(line for line in lines if line[0] != "#")))
        found[name] = ([line for line in lines if line[0] == "#"], list(rows))
    return found


def shares(rows):
    return [(row["mps_pct"], row["size"]) for row in rows]


def test_table_has_shares_and_provenance(golden):
    [text] = texts_of(tabulate_records(lut_records())).values()
    golden(text)
    _, rows = tables(*lut_records())["matmul_lut.csv"]
    assert float(rows[1]["avg_ms"]) == pytest.approx(2)
    assert float(rows[1]["tflops"]) == pytest.approx(2 * 64**3 / 2e-3 / 1e12, rel=1e-4)


def test_row_faster_than_larger_share_is_doubted():
    full, half, tenth = lut_records()
    for each in half["cases"]:
        each["samples_s"] = [[sample / 20 for sample in row] for row in each["samples_s"]]
    _, rows = tables(full, half, tenth)["matmul_lut.csv"]
    assert [bool(row["doubt"]) for row in rows] == [False, True, False] * 2


def test_table_is_of_one_rank_and_one_mechanism():
    full, half, tenth = lut_records()
    half["world_size"] = 2
    tenth["config"]["hardware"]["slowdown"] = [10]
    _, rows = tables(full, half, tenth)["matmul_lut.csv"]
    assert shares(rows) == [("100", "64"), ("10", "64"), ("100", "128"), ("10", "128")]
    full, half, tenth = lut_records()
    full["slowdown"] = {"asked": [1.0]}
    half["slowdown"]["mechanism"] = "duty_cycle"
    found = {name: {row["mps_pct"] for row in rows} for name, (_, rows) in tables(full, half, tenth).items()}
    assert found == {
        "matmul_lut_slowed_by-duty_cycle.csv": {"100", "50"}, "matmul_lut_slowed_by-cgroup.csv": {"100", "10"},
    }  # fmt: skip
    names, _ = drawn(tabulate_records([full, half, tenth]))
    assert {"matmul_lut_share_slowed_by-cgroup.png", "matmul_lut_time_slowed_by-duty_cycle.png"} <= set(names)


def test_table_takes_median_over_runs():
    old = lut_records()
    for record in old:
        record |= {"started_at": "2025-01-01T00:00:00.000+00:00", "warnings": ["not slowed enough"], "run": "old"}
        for case in record["cases"]:
            case["samples_s"] = [[3 * each for each in row] for row in case["samples_s"]]
    comments, rows = tables(*old, *(record | {"run": "new"} for record in lut_records()))["matmul_lut.csv"]
    assert [float(row["avg_ms"]) for row in rows] == pytest.approx([2, 4, 20, 4, 8, 40])
    assert any("2025-01-01" in line and "2026-01-01" in line for line in comments)
    assert any("not slowed enough" in line for line in comments)


def test_share_that_differs_from_the_asked_one_is_told():
    full, half, tenth = lut_records()
    half["slowdown"]["measured"] = [1.1]
    comments, rows = tables(full, half, tenth)["matmul_lut.csv"]
    assert {share for share, _ in shares(rows)} == {"100", "50", "10"}
    told = "50 % (measured 91 %)"
    assert any(line.endswith(told) for line in comments)
    _, figures = drawn(tabulate_records([full, half, tenth]), "matmul_lut_share.png", "matmul_lut_time.png")
    assert figures["matmul_lut_time.png"].axes[0].get_legend_handles_labels()[1] == ["100 %", told, "10 %"]
    assert told in figures["matmul_lut_share.png"].get_supxlabel()


def test_size_labels_are_integers():
    table = tabulate_records([*lut_records(), make_record(status="crash")])
    _, figures = drawn(table, "matmul_lut_share.png", "matmul_lut_time.png")
    share = figures["matmul_lut_share.png"].axes[0].get_legend_handles_labels()[1]
    assert share == ["ideal", "n = 64", "n = 128"]
    assert [text.get_text() for text in figures["matmul_lut_time.png"].axes[0].get_xticklabels()] == ["64", "128"]
    assert figures["matmul_lut_time.png"].get_supxlabel().endswith("; on a processor")
