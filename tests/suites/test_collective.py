"""Every collective: sizes, payloads, exact checks on real ranks, and several sizes as cases of one job."""

import functools
import re
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from benchkit.api import verification
from benchkit.api.case import CONFIGURED, ONE_CALL, CallsPerSample
from benchkit.api.sizes import mebibytes
from benchkit.errors import ConfigError
from benchkit.point.point import choose_isolated_cases
from benchkit.suites.collective.cases import TIMED, CollectiveCheck, cases_of, repeatable
from benchkit.suites.collective.operations import Collective
from benchkit.suites.collective.suite import COLLECTIVES, CollectiveConfig, bus_factor, part_sizes

from tests.support import fakes
from tests.support.cli import Cli
from tests.support.configs import made
from tests.support.records import as_case

KIB = 2**-10
ONE_CASE = ["measure=few", "measure.mode=loop"]


def test_mebibytes_parses_sizes():
    given = [1, "100", "4B", "16 MiB", "1kib", "1g", "10MB"]
    assert [mebibytes(size) for size in given] == [1, 100, 4 / 2**20, 16, 2**-10, 1024, 1e7 / 2**20]


@pytest.mark.parametrize("given", [0, "", "4TB", "4iB", "inf", "1 2", True, None])
def test_mebibytes_refuses_invalid_size(given):
    with pytest.raises(ConfigError):
        mebibytes(given)


def test_bus_factors_match_nccl_tests():
    factors = {name: bus_factor(name, 4) for name in COLLECTIVES}
    assert factors == {
        "all_reduce": 1.5, "all_gather": 0.75, "reduce_scatter": 0.75, "gather": 0.75, "scatter": 0.75,
        "all_to_all": 0.75, "broadcast": 1, "reduce": 1, "ring_shift": 1, "send_recv": 1,
        "barrier": None,
    }  # fmt: skip
    assert {bus_factor(name, 1) for name in COLLECTIVES} == {None}


def test_part_sizes_split_payload():
    assert part_sizes("all_gather", 4, 1000, ragged=False) == [250] * 4
    assert part_sizes("all_gather", 4, 1, ragged=False) == [1] * 4
    assert part_sizes("all_reduce", 4, 1000, ragged=False) == [1000]
    ragged = part_sizes("all_to_all", 3, 900, ragged=True)
    assert ragged == [200, 300, 400]


WITHOUT_PART_OF_THE_LAST = {"broadcast", "scatter", "send_recv", "barrier"}
UNSEEN = {"none": set(COLLECTIVES), "swapped": {"barrier"}, "lost": set(), "absent": WITHOUT_PART_OF_THE_LAST}
"""Of each fault the collectives that it does not affect; `lost` also is a barrier at which no rank waits."""


@pytest.fixture(scope="module")
def swept(module_cli: Cli):
    """The records of every collective under every fault."""
    module_cli.environment["BENCHKIT_SUITES"] = "tests.support.broken"
    points = [f"collective={','.join(COLLECTIVES)}", f"fault={','.join(UNSEEN)}"]
    done = module_cli("+suite=collective", *points, "data_size=48KiB", "world_size=3", "ranks=reuse", "measure=few")
    assert done.returncode == 1, done.stdout + done.stderr
    return {(record["config"]["fault"], record["config"]["collective"]): record for record in module_cli.records()}


@pytest.mark.parametrize("fault", UNSEEN)
def test_fault_invalidates_affected_collectives(swept, fault):
    found = {name: {case["status"] for case in swept[fault, name]["cases"]} for name in COLLECTIVES}
    assert found == {name: {"ok" if name in UNSEEN[fault] else "invalid"} for name in COLLECTIVES}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_have_payload_and_bus_factor(swept, name):
    *alone, in_a_row = swept["none", name]["cases"]
    payload = {"send_recv": 2 * 48 * 1024, "barrier": None}.get(name, 48 * 1024)
    assert (in_a_row["payload_bytes"], in_a_row["bus_factor"]) == (payload, bus_factor(name, 3))
    for case in alone:  # on a busy machine no call may be short
        assert (case["payload_bytes"], case["bus_factor"]) == (payload, None)
        assert (case["calls_per_sample"], case["estimator"]) == (1, "last_arrival_to_last_exit")


@pytest.mark.slow
def test_collectives_support_tiny_and_odd_sizes_of_more_ranks(cli: Cli):
    shape = ["data_size=4B,1001B", "world_size=4", "dtype=float16"]
    done = cli("+suite=collective", f"collective={','.join(COLLECTIVES)}", *shape, *ONE_CASE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_async_calls_report_issue_and_wait(cli: Cli):
    names = ",".join(name for name in COLLECTIVES if name != "send_recv")
    done = cli("+suite=collective", f"collective={names}", "data_size=1", "async_op=true", *ONE_CASE)
    assert done.returncode == 0, done.stdout + done.stderr
    for record in cli.records():
        case = record["cases"][-1]
        for issued, waited, total in zip(
            case["regions_s"]["issue_on_host"][0], case["regions_s"]["comm_wait"][0], case["samples_s"][0], strict=True
        ):
            assert 0 < issued < total
            assert issued + waited <= total


@pytest.mark.slow
def test_lost_barrier_is_invalid_in_ranks_that_stay(cli: Cli):
    """The store in which ranks count themselves in stays, too."""
    faults = ["fault=none,lost", "ranks=reuse"]
    done = cli("+suite=collective", "collective=barrier", *faults, *ONE_CASE, BENCHKIT_SUITES="tests.support.broken")
    assert done.returncode == 1, done.stdout + done.stderr
    assert [record["status"] for record in cli.records()] == ["ok", "invalid"]


@pytest.mark.parametrize("op", ["sum", "product", "avg", "max"])
def test_repeated_reduction_keeps_magnitude(op):
    collective = Collective("all_reduce", [1000], 0, 3, torch.float32, torch.device("cpu"), op)
    drawn = [
        verification.pattern(seed=1, turn=TIMED, rank=rank, world_size=3, dtype=torch.float32, op=op, length=1000)
        for rank in range(3)
    ]
    held = [repeatable(values.float(), collective) for values in drawn]
    combine = {"sum": torch.add, "avg": torch.add, "min": torch.minimum, "max": torch.maximum, "product": torch.mul}
    first = functools.reduce(combine[op], held) / (3 if op == "avg" else 1)
    again = functools.reduce(combine[op], [first] * 3) / (3 if op == "avg" else 1)
    assert torch.equal(first.abs(), again.abs())
    assert first.isfinite().all()


def build(sizes=(1.0,), available_bytes=1e9, calls=None, world_size=2, **options):
    """The cases of an all-reduce on the first of some ranks, where a byte takes 1 ns."""
    defaults = {
        "collective": "all_reduce", "dtype": "float32", "reduce_op": "sum", "async_op": False, "ragged": False,
        "measure": fakes.plan(), "data_size": sizes,
    }  # fmt: skip
    calls = [] if calls is None else calls

    def seconds_of(step, turns=7):
        num_bytes = step.call.args[0].inputs[0].buffer.nbytes
        calls.append(num_bytes)
        return [[0.0, 1e-9 * num_bytes]]

    rank = SimpleNamespace(index=0, world_size=world_size, seed=0, device=torch.device("cpu"), seconds_of=seconds_of)
    rank.memory_shortage = lambda needed: f"needs {needed:g}" if needed > available_bytes else ""
    return cases_of(made(CollectiveConfig, **defaults | options), rank)


TWO = [ONE_CALL, CallsPerSample(fill_s=0.01)]


@pytest.mark.parametrize(("mode", "filled"), [("per_iteration", TWO), ("graph", TWO), ("loop", [CONFIGURED])])
def test_short_call_has_two_cases_of_one_step(mode, filled):
    """A graph can take the place of the step in both, if it can hold what the job's backend does."""
    cases = build(1, measure=fakes.plan(mode=mode))
    assert [case.calls for case in cases] == filled
    assert {id(case.step) for case in cases} == {id(cases[0].step)}
    assert cases[0].step.over == "default"
    assert all("data_size" not in case.labels for case in cases)


def labels(cases):
    return [(case.labels["data_size"], case.labels.get("timing")) for case in cases]


def test_sizes_keep_order_share_memory_and_short_calls_have_latency():
    calls = []
    cases = build([1, 20, 8, KIB], calls=calls)
    assert labels(cases) == [
        (1, "latency"), (1, "back_to_back"), (20, "back_to_back"), (8, "latency"), (8, "back_to_back"),
        (KIB, "latency"), (KIB, "back_to_back"),
    ]  # fmt: skip
    assert cases[2].work.payload_bytes == 20 * 2**20
    assert {case.baseline for case in cases} == {None}
    buffers = [case.verify.operation.inputs[0].buffer for case in cases]
    assert {buffer.data_ptr() for buffer in buffers} == {buffers[0].data_ptr()}
    assert {buffer.untyped_storage().nbytes() for buffer in buffers} == {20 * 2**20}


def test_latency_is_probed_up_to_first_long_size_and_again_near_limit():
    calls = []
    cases = build([2.0**exponent for exponent in range(-16, 6)], calls=calls)
    short = [size for size, timing in labels(cases) if timing == "latency"]
    assert short == [2.0**exponent for exponent in range(-16, 4)]  # 8 MiB take 8.4 ms
    assert max(calls) == 2**24
    calls.clear()
    build([1, 8, 32], calls=calls)
    assert calls == [2**20, 2**23, 2**23, 2**25, 2**25]


@pytest.mark.parametrize(
    ("op", "dtype", "size", "shown"),
    [
        ("sum", "float32", 1, None),
        ("sum", "bfloat16", 2, 256),
        ("max", "float32", 2, 2),
        ("max", "float32", 4096, None),
    ],
)
def test_reduction_says_how_many_ranks_a_short_message_shows(op, dtype, size, shown):
    """In all others each of 4096 ranks shows in each check."""
    num_bytes = size * getattr(torch, dtype).itemsize
    options = {"reduce_op": op, "dtype": dtype, "measure": fakes.plan(mode="loop")}
    [case] = build(num_bytes / 2**20, world_size=4096, **options)
    assert ("shows" in case.unchecked) == (shown is not None)
    assert shown is None or f"shows {shown} of 4096 ranks" in case.unchecked


def test_size_that_does_not_fit_is_skipped_with_figures():
    cases = build([KIB, 64, 1], available_bytes=4 * 2**20, measure=fakes.plan(mode="loop"))
    assert [case.skip for case in cases] == ["", f"needs {2 * 64 * 2**20:g}", ""]
    assert cases[0].verify.operation.inputs[0].buffer.untyped_storage().nbytes() == 2**20


def test_no_check_finds_inputs_of_another_size(monkeypatch):
    """Operations share buffers, so a call that leaves the result of another size there must show."""
    monkeypatch.setattr(dist, "all_reduce", lambda *arguments, **options: None)
    turns = []
    monkeypatch.setattr(CollectiveCheck, "fill", lambda check, turn: turns.append(turn))
    monkeypatch.setattr(CollectiveCheck, "require", lambda check, held, turn: None)
    for case in build([KIB, 1], measure=fakes.plan(mode="loop")):
        fakes.verify(case)
    drawn = [turn for turn in turns if turn >= 0]
    assert len(drawn) == len(set(drawn)) == 2


def test_timed_inputs_are_drawn_once_after_a_check(monkeypatch):
    monkeypatch.setattr(dist, "all_reduce", lambda *arguments, **options: None)
    monkeypatch.setattr(CollectiveCheck, "require", lambda check, held, turn: None)
    turns, fill = [], CollectiveCheck.fill
    monkeypatch.setattr(CollectiveCheck, "fill", lambda check, turn: turns.append(turn) or fill(check, turn))
    [case] = build(1, measure=fakes.plan(mode="loop"))
    fakes.verify(case)
    for _ in range(3):
        case.reset()
    assert turns.count(TIMED) == 1
    fakes.verify(case)
    case.reset()
    assert turns.count(TIMED) == 2


@pytest.mark.slow
def test_list_of_sizes_is_one_point_of_verified_cases(cli: Cli):
    """Every collective that has sizes, three in a job and one alone."""
    names = ",".join(name for name in COLLECTIVES if name != "barrier")
    given = [f"collective={names}", "data_size=[3KiB,64B,48KiB],2KiB", "world_size=2", *ONE_CASE]
    done = cli("+suite=collective", *given)
    assert done.returncode == 0, done.stdout + done.stderr
    records, sizes = cli.records(), [3 * KIB, KIB / 16, 48 * KIB]
    assert len(records) == 2 * (len(COLLECTIVES) - 1)
    for job, single in zip(records[::2], records[1::2], strict=True):
        assert [case["labels"]["data_size"] for case in job["cases"]] == sizes == job["config"]["data_size"]
        assert [case["status"] for case in job["cases"]] == ["ok"] * 3
        both = 2 if job["config"]["collective"] == "send_recv" else 1
        assert [case["payload_bytes"] for case in job["cases"]] == [both * 2**20 * size for size in sizes]
        assert [dict(case["labels"]) for case in single["cases"]] == [{"timing": "back_to_back"}]
    assert re.search(r"… \d+ more rows$", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_fault_invalidates_every_size(cli: Cli):
    job = ["+suite=collective", "data_size=[3KiB,64B]", "fault=swapped", "world_size=3", *ONE_CASE]
    done = cli(*job, BENCHKIT_SUITES="tests.support.broken")
    assert done.returncode == 1, done.stdout + done.stderr
    [record] = cli.records()
    assert [case["status"] for case in record["cases"]] == ["invalid"] * 2


def test_sizes_are_no_rivals():
    """Each is compared with itself alone, never with another size."""

    def timed(size, timing, seconds):
        labels = {"data_size": size, "timing": timing}
        return as_case(labels=labels, payload_bytes=int(size * 2**20), samples_s=[[seconds] * 3])

    cases = [timed(1, "latency", 2), timed(1, "back_to_back", 1), timed(4, "back_to_back", 4), timed(8, "x", 8)]
    assert choose_isolated_cases(cases, always=True) == cases
    ways = [timed(1, way, 3 - number) for number, way in enumerate("abc")]
    assert choose_isolated_cases([*ways, *cases[2:]], always=True) == [ways[0], ways[2], *cases[2:]]
