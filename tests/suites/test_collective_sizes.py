"""Several sizes of a collective as cases of one job."""

import re
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from benchkit.point.alone import chosen
from benchkit.suites.collective.cases import cases_of
from benchkit.suites.collective.check import Check
from benchkit.suites.collective.config import CollectiveConfig
from benchkit.suites.collective.names import COLLECTIVES
from benchkit.suites.collective.sizes import sizes_of

from tests.support import fakes
from tests.support.cli import Cli
from tests.support.configs import made
from tests.support.records import as_case

pytestmark = pytest.mark.slow

KIB = 2**-10
SIZES_KIB = (3, 0.0625, 48)
LIST = "data_size=[3KiB,64B,48KiB]"
ONE_CASE = ["measure=few", "measure.mode=loop"]


def test_list_of_one_is_that_size():
    assert sizes_of(["1KiB"]) == sizes_of("1KiB") == KIB
    assert sizes_of([1, "1KiB", "4B"]) == [1, KIB, 4 / 2**20]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["data_size=[]"], "data_size=[]: it is empty; allowed is a list of different sizes, or one size"),
        (["data_size=[1,2KiB,1024KiB]"], "data_size=[1, '2KiB', '1024KiB']: a size is there twice; allowed is a list"),
        (["data_size=[1,4TB]"], "data_size=4TB: allowed are MiB > 0, or a size with its unit"),
        (["data_size=[1,[2]]"], "data_size=[2]: allowed are MiB > 0"),
        (["data_size=[1,null]"], "data_size=None: allowed are MiB > 0"),
        (["data_size=[1,2]", "collective=barrier"], "data_size=[1.0, 2.0]: a barrier has no size; allowed is one"),
        (["data_size=[1,2]", "timeout_s=43"], "timeout_s=43: 2 sizes in one job may take 44 s (measure.max_seconds"),
    ],
)
def test_config_refuses_invalid_list(check, given, said):
    refusal = check("+suite=collective", *given)
    assert said in refusal
    assert "\n" not in refusal


@pytest.mark.parametrize(
    "given",
    [["data_size=[1,2]", "timeout_s=44"], ["data_size=[1,2]", "timeout_s=22", "measure.mode=loop"], [LIST, *ONE_CASE]],
)
def test_config_accepts_list(check, given):
    assert check("+suite=collective", *given) == ""


def build(sizes, available_bytes=1e9, calls=None, **options):
    """The cases of an all-reduce on the first of two ranks, where a byte takes 1 ns."""
    defaults = {
        "collective": "all_reduce", "dtype": "float32", "reduce_op": "sum", "async_op": False, "ragged": False,
        "measure": fakes.plan(), "data_size": sizes,
    }  # fmt: skip
    calls = [] if calls is None else calls

    def seconds_of(step, turns=7):
        num_bytes = step.call.args[0].inputs[0].buffer.nbytes
        calls.append(num_bytes)
        return [[0.0, 1e-9 * num_bytes]]

    def shortage(needed):
        return f"needs {needed:g}" if needed > available_bytes else ""

    rank = SimpleNamespace(index=0, world_size=2, seed=0, device=torch.device("cpu"))
    rank.memory_shortage, rank.seconds_of = shortage, seconds_of
    return cases_of(made(CollectiveConfig, **defaults | options), rank)


def labels(cases):
    return [(case.labels["data_size"], case.labels.get("timing")) for case in cases]


def buffer_of(case):
    return case.verify.operation.inputs[0].buffer


def test_sizes_keep_order_and_short_calls_have_latency():
    cases = build([1, 20, KIB])
    assert labels(cases) == [
        (1, "latency"), (1, "back_to_back"), (20, "back_to_back"), (KIB, "latency"), (KIB, "back_to_back"),
    ]  # fmt: skip
    assert [case.work.payload_bytes for case in cases] == [2**20, 2**20, 20 * 2**20, 2**10, 2**10]
    assert {case.baseline for case in cases} == {None}


def test_one_size_has_no_label():
    assert [dict(case.labels) for case in build(1)] == [{"timing": "latency"}, {"timing": "back_to_back"}]


def test_latency_is_timed_up_to_first_long_size():
    calls = []
    cases = build([2.0**exponent for exponent in range(-16, 6)], calls=calls)
    short = [size for size, timing in labels(cases) if timing == "latency"]
    assert short == [2.0**exponent for exponent in range(-16, 4)]  # 8 MiB take 8.4 ms
    assert max(calls) == 2**24
    assert all(timing == "back_to_back" for _, timing in labels(build([1, KIB], measure=fakes.plan(mode="loop"))))


def test_call_near_limit_is_probed_again():
    calls = []
    build([1, 8, 32], calls=calls)
    assert calls == [2**20, 2**23, 2**23, 2**25, 2**25]


def test_sizes_share_memory_of_largest():
    cases = build([KIB, 1, 0.5])
    assert {buffer_of(case).data_ptr() for case in cases} == {buffer_of(cases[0]).data_ptr()}
    assert {buffer_of(case).untyped_storage().nbytes() for case in cases} == {2**20}


def test_size_that_does_not_fit_is_skipped_with_figures():
    cases = build([KIB, 64, 1], available_bytes=4 * 2**20, measure=fakes.plan(mode="loop"))
    assert [case.skip for case in cases] == ["", f"needs {2 * 64 * 2**20:g}", ""]
    assert [case.labels["data_size"] for case in cases] == [KIB, 64, 1]
    assert buffer_of(cases[0]).untyped_storage().nbytes() == 2**20


def test_no_check_finds_inputs_of_another_size(monkeypatch):
    """Operations share buffers, so a call that leaves the result of another size there must show."""
    monkeypatch.setattr(dist, "all_reduce", lambda *arguments, **options: None)
    turns = []
    monkeypatch.setattr(Check, "fill", lambda check, turn: turns.append(turn))
    monkeypatch.setattr(Check, "require", lambda check, held, turn: None)
    cases = build([KIB, 1], measure=fakes.plan(mode="loop"))
    for case in cases:
        fakes.verify(case)
    drawn = [turn for turn in turns if turn >= 0]
    assert len(drawn) == len(set(drawn)) == 2


@pytest.fixture(scope="module")
def sweep(module_cli: Cli):
    """Every collective that has sizes, three in a job and one alone."""
    names = ",".join(name for name in COLLECTIVES if name != "barrier")
    done = module_cli("+suite=collective", f"collective={names}", f"{LIST},2KiB", "world_size=2", *ONE_CASE)
    assert done.returncode == 0, done.stdout + done.stderr
    return module_cli.records(), done.stderr + done.stdout


def test_list_is_one_point_of_verified_cases(sweep):
    records, printed = sweep
    assert len(records) == 2 * (len(COLLECTIVES) - 1)
    for job, single in zip(records[::2], records[1::2], strict=True):
        assert [case["labels"]["data_size"] for case in job["cases"]] == [size * KIB for size in SIZES_KIB]
        assert [case["status"] for case in job["cases"]] == ["ok"] * 3
        both = 2 if job["config"]["collective"] == "send_recv" else 1
        assert [case["payload_bytes"] for case in job["cases"]] == [both * 1024 * size for size in SIZES_KIB]
        assert [dict(case["labels"]) for case in single["cases"]] == [{"timing": "back_to_back"}]
        assert job["config"]["data_size"] == [size * KIB for size in SIZES_KIB]
    assert "data_size=64 B timing=back_to_back" in printed


def test_table_has_row_per_size(sweep):
    _, printed = sweep
    table = printed[printed.index("All rows: ") :]
    assert len(re.findall(r"^.* 64 B  .*$", table, re.MULTILINE)) == len(COLLECTIVES) - 1


@pytest.mark.slow
def test_fault_invalidates_every_size(cli: Cli):
    job = ["+suite=collective", LIST, "fault=swapped", "world_size=3", *ONE_CASE]
    done = cli(*job, BENCHKIT_SUITES="tests.support.broken")
    assert done.returncode == 1, done.stdout + done.stderr
    [record] = cli.records()
    assert [case["status"] for case in record["cases"]] == ["invalid"] * 3


def test_sizes_are_no_rivals():
    """Each is compared with itself alone, never with another size."""

    def timed(size, timing, seconds):
        labels = {"data_size": size, "timing": timing}
        return as_case(labels=labels, payload_bytes=int(size * 2**20), samples_s=[[seconds] * 3])

    cases = [timed(1, "latency", 2), timed(1, "back_to_back", 1), timed(4, "back_to_back", 4), timed(8, "x", 8)]
    assert chosen(cases) == cases
    ways = [timed(1, way, 3 - number) for number, way in enumerate("abc")]
    assert chosen([*ways, *cases[2:]]) == [ways[0], ways[2], *cases[2:]]
