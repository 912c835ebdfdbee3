"""Every collective: sizes, payloads, exact checks on real ranks, and what is refused."""

import functools
from types import SimpleNamespace

import pytest
import torch
from benchkit.api import verification
from benchkit.api.message_size import mebibytes
from benchkit.errors import ConfigError
from benchkit.suites.collective.cases import cases_of
from benchkit.suites.collective.check import TIMED, repeatable
from benchkit.suites.collective.config import CollectiveConfig
from benchkit.suites.collective.names import COLLECTIVES
from benchkit.suites.collective.operations import Collective
from benchkit.suites.collective.sizes import bus_factor, part_sizes

from tests.support import fakes
from tests.support.cli import Cli
from tests.support.configs import made

QUICK = ["measure=few"]
ONE_CASE = ["measure=few", "measure.mode=loop"]


@pytest.mark.parametrize(
    ("given", "mib"),
    [
        (1, 1),
        (0.5, 0.5),
        ("100", 100),
        ("4B", 4 / 2**20),
        ("1KiB", 2**-10),
        ("16 MiB", 16),
        ("2GiB", 2048),
        ("1e3", 1000),
        ("1K", 2**-10),
        ("1kib", 2**-10),
        ("4M", 4),
        ("1g", 1024),
        ("10MB", 1e7 / 2**20),
        ("64KB", 64e3 / 2**20),
    ],
)
def test_mebibytes_parses_sizes(given, mib):
    assert mebibytes(given) == mib


@pytest.mark.parametrize("given", [0, -1, "", "4TB", "B", "4iB", "nan", "inf", "1 2", True, None])
def test_mebibytes_refuses_invalid_size(given):
    with pytest.raises(ConfigError, match="allowed are MiB > 0, or a size with its unit: 4B"):
        mebibytes(given)


def test_bus_factors_match_nccl_tests():
    factors = {name: bus_factor(name, 4) for name in COLLECTIVES}
    assert factors == {
        "all_reduce": 1.5, "all_gather": 0.75, "reduce_scatter": 0.75, "gather": 0.75, "scatter": 0.75,
        "all_to_all": 0.75, "broadcast": 1, "reduce": 1, "send_recv": 1, "barrier": None,
    }  # fmt: skip
    assert {bus_factor(name, 1) for name in COLLECTIVES} == {None}


def test_part_sizes_split_payload():
    assert part_sizes("all_gather", 4, 1000, ragged=False) == [250] * 4
    assert part_sizes("all_gather", 4, 1, ragged=False) == [1] * 4
    assert part_sizes("all_reduce", 4, 1000, ragged=False) == [1000]
    ragged = part_sizes("all_to_all", 3, 900, ragged=True)
    assert ragged == [200, 300, 400]


def payload(name, world_size, num_bytes):
    return {"send_recv": 2 * num_bytes, "barrier": None}.get(name, num_bytes)


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_collectives_have_payload_and_bus_factor(cli: Cli, world_size):
    names = ",".join(COLLECTIVES)
    done = cli("+suite=collective", f"world_size={world_size}", f"collective={names}", "data_size=48KiB", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, record in zip(COLLECTIVES, cli.records(), strict=True):
        assert (record["world_size"], record["config"]["collective"]) == (world_size, name)
        *alone, in_a_row = record["cases"]
        assert in_a_row["payload_bytes"] == payload(name, world_size, 48 * 1024), name
        assert in_a_row["bus_factor"] == bus_factor(name, world_size), name
        for case in alone:  # on a busy machine no call may be short
            assert (case["payload_bytes"], case["bus_factor"]) == (in_a_row["payload_bytes"], None)
            assert (case["calls_per_sample"], case["estimator"]) == (1, "last_arrival_to_last_exit")


@pytest.mark.slow
@pytest.mark.parametrize("data_size", ["4B", "1001B"])
def test_collectives_support_tiny_and_odd_sizes(cli: Cli, data_size):
    shape = [f"data_size={data_size}", "world_size=3", "dtype=float16"]
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["collective=all_sum"], "collective=all_sum: allowed is all_reduce|all_gather"),
        (["data_size=4TB"], "data_size=4TB: allowed are MiB > 0, or a size with its unit"),
        (["collective=broadcast", "reduce_op=max"], "reduce_op=max: broadcast has none"),
        (["collective=broadcast", "ragged=true"], "ragged=true: allowed with collective=all_gather|reduce_scatter"),
        (["collective=send_recv", "world_size=1"], "collective=send_recv: needs two ranks"),
        (["collective=send_recv", "async_op=true"], "async_op=true: a ping-pong waits"),
        (["dtype=int32", "reduce_op=avg"], "reduce_op=avg: allowed with a floating-point dtype"),
    ],
)
def test_config_refuses_invalid_setting(check, given, said):
    refusal = check("+suite=collective", *given)
    assert said in refusal
    assert "\n" not in refusal


WITHOUT_RESULT = {"barrier"}
WITHOUT_PART_OF_THE_LAST = {"broadcast", "scatter", "send_recv", "barrier"}


@pytest.fixture(scope="module")
def broken(module_cli: Cli) -> dict[tuple[str, str], str]:
    """The status of every collective under every fault."""
    module_cli.environment["BENCHKIT_SUITES"] = "tests.support.broken"
    names = f"collective={','.join(COLLECTIVES)}"
    done = module_cli(
        "+suite=collective", names, "fault=swapped,lost,absent", "data_size=64KiB", "world_size=3", *ONE_CASE
    )
    assert done.returncode == 1, done.stdout + done.stderr
    statuses = {}
    for record in module_cli.records():
        [status] = {case["status"] for case in record["cases"]}
        statuses[record["config"]["fault"], record["config"]["collective"]] = status
    return statuses


@pytest.mark.parametrize(
    ("fault", "unseen"), [("swapped", WITHOUT_RESULT), ("lost", set()), ("absent", WITHOUT_PART_OF_THE_LAST)]
)
def test_fault_invalidates_affected_collectives(broken, fault, unseen):
    """`lost` also finds a barrier at which no rank waits."""
    found = {name: broken[fault, name] for name in COLLECTIVES}
    assert found == {name: "ok" if name in unseen else "invalid" for name in COLLECTIVES}


@pytest.mark.slow
def test_lost_barrier_is_invalid_in_ranks_that_stay(cli: Cli):
    """The store in which ranks count themselves in stays, too."""
    faults = ["fault=none,lost", "ranks=reuse"]
    done = cli("+suite=collective", "collective=barrier", *faults, *ONE_CASE, BENCHKIT_SUITES="tests.support.broken")
    assert done.returncode == 1, done.stdout + done.stderr
    assert [record["status"] for record in cli.records()] == ["ok", "invalid"]


@pytest.mark.parametrize("op", ["sum", "product", "avg", "min", "max"])
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


@pytest.mark.parametrize(("mode", "filled"), [("per_iteration", [0.0, 0.01]), ("graph", [0.0, 0.01]), ("loop", [0.0])])
def test_short_call_has_two_cases_of_one_step(mode, filled):
    """A graph can take the place of the step in both, if it can hold what the job's backend does."""
    options = {"data_size": 0.001, "dtype": "float32", "reduce_op": "sum", "async_op": False, "ragged": False}
    config = made(CollectiveConfig, collective="all_reduce", measure=fakes.plan(mode=mode), **options)
    rank = SimpleNamespace(index=0, world_size=2, seed=0, device=torch.device("cpu"), memory_shortage=lambda size: "")
    rank.seconds_of = lambda step, turns=7: [[1e-3, 2e-3]]
    cases = cases_of(config, rank)
    assert [case.fill_seconds for case in cases] == filled
    assert {id(case.step) for case in cases} == {id(cases[0].step)}
    assert cases[0].step.over == "default"
