"""Square matrix products: dtypes, what is left out beforehand, and the check of the product."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from benchkit.api import torch_internals
from benchkit.api.float8 import FLOAT8
from benchkit.errors import InvalidResult
from benchkit.suites.matmul_lut import cases, forecast
from benchkit.suites.matmul_lut.config import MatmulLutConfig
from benchkit.suites.matmul_lut.forecast import Forecast, fewest_calls

from tests.support import devices, fakes
from tests.support.cli import Cli
from tests.support.configs import made

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def rank(device=CPU, seconds=(), shortage=lambda needed_bytes: ""):
    measured = SimpleNamespace(index=0, world_size=1, seed=0, device=device, memory_shortage=shortage)
    measured.seconds_of = lambda *calls, turns: [[each] for each in seconds[: len(calls)]]
    return measured


def config(sizes, dtype="float32", **changes):
    settings = {"bg_streams": 0, "timeout_s": 600.0, "measure": fakes.plan(warmup_iterations=1)}
    return made(MatmulLutConfig, sizes=sizes, dtype=dtype, **(settings | changes))


def test_matrices_of_all_sizes_count_together():
    asked = []
    cases.cases_of(config([16, 8], bg_streams=0), rank(shortage=lambda needed: asked.append(needed) or ""))
    assert asked == [3 * 4 * 16**2 + 8 * 16**2, 3 * 4 * (16**2 + 8**2) + 8 * 16**2]


def test_skipped_size_holds_no_memory():
    asked = []
    cases.cases_of(config([16, 8]), rank(shortage=lambda needed: asked.append(needed) or "needs more"))
    assert asked == [20 * 16**2, 20 * 8**2]


def test_size_without_time_is_skipped(monkeypatch):
    """A call of 64 takes 2 s here and one of 128 takes 16 s; each case is called at least four times."""
    monkeypatch.setattr(forecast, "PROBED", 64)
    built = cases.cases_of(config([32, 128, 64], timeout_s=20.0), rank(seconds=[2.0]))
    assert [case.skip.partition(":")[0] for case in built] == ["", "needs 4 calls of about 16 s, 19 s left", ""]
    for timeout_s, fits in ((66.0, True), (64.5, False)):  # 1 s for the first size, 64 s for the other
        late = cases.cases_of(config([32, 128], timeout_s=timeout_s), rank(seconds=[2.0]))[1].skip
        assert (late == "") == fits


def test_cpu_times_only_large_sizes():
    assert forecast.forecast([64, 4096], rank(), None) == Forecast()


def test_launch_bound_sizes_are_named():
    seconds = Forecast(launch_s=5e-6, cube_s=1e-3 / 4096**3)
    assert seconds.launches([64, 512, 1024]).startswith("sizes 64, 512: launching a product takes 5 us, longer than")
    assert seconds.launches([1024]) == Forecast().launches([64]) == ""
    assert (seconds.seconds(64), seconds.seconds(8192)) == (5e-6, pytest.approx(8e-3))


def test_warning_of_launches_is_in_cases(monkeypatch):
    """On a GPU alone: here one call takes 1 s at least, and one of 32 takes 2 s."""
    monkeypatch.setattr(forecast, "PROBED", 32)
    monkeypatch.setattr(torch, "Generator", devices.Generator)
    warnings = []
    for device in (devices.META, CPU):
        built = cases.cases_of(config([16, 48]), rank(device, seconds=[2.0, 1.0]))
        warnings.append([len(case.warnings) for case in built])
    assert warnings == [[1, 0], [0, 0]]


@pytest.mark.parametrize(("mode", "untimed"), [("loop", 2), ("graph", 4)])
@pytest.mark.parametrize(("calls", "timed"), [("auto", 4), (1, 2), (10, 20)])
def test_fewest_calls_counts_checks_and_capture(mode, untimed, calls, timed):
    plan = fakes.plan(mode=mode, warmup_iterations=1, calls_per_sample=calls)
    assert fewest_calls(plan) == untimed + timed


def test_factors_are_drawn_on_device(monkeypatch):
    monkeypatch.setattr(torch, "Generator", devices.Generator)
    monkeypatch.setattr(cases, "require_rows", lambda *given: None)
    kind = cases.matmul_here("float32", devices.META)
    with devices.Copies() as copies:
        case = cases.matmul(16, kind, config([16]), rank(devices.META))
        fakes.verify(case)
    assert copies.from_host == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", FLOAT8])
def test_wrong_product_is_found(dtype, monkeypatch):
    """Products of float8 are verified on the CPU, too, where torch has them."""
    monkeypatch.setattr(cases, "first_reason", lambda reason: reason)
    [case] = cases.cases_of(config([48], dtype), rank())
    fakes.verify(case)
    kind = cases.matmul_here(dtype, CPU)
    broken = replace(kind, multiply=lambda left, right, out: out.fill_(1))
    with pytest.raises(InvalidResult, match=r"element \[\d+, \d+\]: 1.0, expected"):
        fakes.verify(cases.matmul(48, broken, config([48]), rank()))


@pytest.mark.parametrize(("device", "flag"), [(CUDA, False), (CPU, True)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gpu_rounds_half_precision_once(dtype, device, flag, monkeypatch):
    flags = SimpleNamespace(allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True)
    monkeypatch.setattr(torch.backends.cuda, "matmul", flags)
    details = cases.matmul_here(dtype, device).details
    assert set(vars(flags).values()) == {flag}
    assert details == ({} if flag else {"reduced_precision_reduction": False})


def test_missing_float8_is_unavailable(monkeypatch):
    def refuse(*given, **options):
        raise RuntimeError("torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0\nat f")

    monkeypatch.setattr(torch, "_scaled_mm", refuse)
    monkeypatch.setattr(cases, "first_reason", lambda reason: reason)
    reasons = {case.unavailable for case in cases.cases_of(config([16, 32], FLOAT8), rank())}
    assert reasons == {torch_internals.float8_matmul_missing(CPU)}
    [reason] = reasons
    assert reason.endswith(
        "cannot multiply float8 on cpu: torch._scaled_mm is only supported on CUDA "
        "devices with compute capability >= 9.0"
    )


def test_float8_sizes_are_multiples_of_16(check):
    refusal = check("+suite=matmul_lut", "dtype=float8_e4m3fn", "sizes=[64,100]")
    assert refusal.endswith("sizes=[64, 100]: allowed with dtype=float8_e4m3fn are multiples of 16")
    assert check("+suite=matmul_lut", "sizes=[64,100]") == ""


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
    cases.matmul(4, kind, config([4], bg_streams=2), rank()).step()
    beside = ["side waits for main", "on side", "mm"]
    assert cuda.calls == [*beside, *beside, "mm", *["main waits for side"] * 2]
