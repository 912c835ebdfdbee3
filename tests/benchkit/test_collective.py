"""Every collective: sizes, payloads, exact checks on real ranks, and what is refused."""

import pytest

from benchkit.errors import ConfigError
from benchkit.models.collectives.sizes import COLLECTIVES, RAGGED, bus_factor, mebibytes, part_sizes
from tests.support.cli import ROOT, Cli

QUICK = ["measure=few"]


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
    ],
)
def test_sizes_are_mib_or_say_their_unit(given, mib):
    assert mebibytes(given) == mib


@pytest.mark.parametrize("given", [0, -1, "", "4MB", "B", "nan", "inf", "1 2", True, None])
def test_what_is_no_size_is_refused(given):
    with pytest.raises(ConfigError, match="allowed are MiB > 0, or a size with its unit: 4B"):
        mebibytes(given)


def test_bus_factors_are_those_of_nccl_tests():
    factors = {name: bus_factor(name, 4) for name in COLLECTIVES}
    assert factors == {
        "all_reduce": 1.5, "all_gather": 0.75, "reduce_scatter": 0.75, "gather": 0.75, "scatter": 0.75,
        "all_to_all": 0.75, "broadcast": 1, "reduce": 1, "send_recv": 1, "barrier": None,
    }  # fmt: skip
    assert {bus_factor(name, 1) for name in COLLECTIVES} == {None}


def test_parts_share_out_the_payload():
    assert part_sizes("all_gather", 4, 1000, ragged=False) == [250] * 4
    assert part_sizes("all_gather", 4, 1, ragged=False) == [1] * 4
    assert part_sizes("all_reduce", 4, 1000, ragged=False) == [1000]
    ragged = part_sizes("all_to_all", 3, 900, ragged=True)
    assert ragged == [200, 300, 400]


def payload(name, world_size, num_bytes):
    return {"send_recv": 2 * num_bytes, "barrier": None}.get(name, num_bytes)


@pytest.mark.parametrize("world_size", [2, 4])
def test_every_collective_is_verified_and_counted(cli: Cli, world_size):
    names = ",".join(COLLECTIVES)
    done = cli("+suite=collective", f"collective={names}", "data_size=48KiB", f"world_size={world_size}", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    records = cli.records()
    assert [record["config"]["collective"] for record in records] == list(COLLECTIVES)
    for name, record in zip(COLLECTIVES, records, strict=True):
        [case] = record["cases"]
        assert case["payload_bytes"] == payload(name, world_size, 48 * 1024), name
        assert case["bus_factor"] == bus_factor(name, world_size), name


@pytest.mark.parametrize("dtype", ["float16", "int64"])
def test_tiny_and_odd_sizes_of_every_collective(cli: Cli, dtype):
    names = ",".join(COLLECTIVES)
    done = cli(
        "+suite=collective", f"collective={names}", "data_size=4B,1001B", "world_size=3", f"dtype={dtype}", *QUICK
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_asynchronous_calls_tell_when_they_return_and_when_they_are_done(cli: Cli):
    names = ",".join(name for name in COLLECTIVES if name != "send_recv")
    done = cli("+suite=collective", f"collective={names}", "data_size=1", "async_op=true", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    for record in cli.records():
        [case] = record["cases"]
        for issued, waited, total in zip(
            case["regions_s"]["issue_on_host"][0], case["regions_s"]["comm_wait"][0], case["samples_s"][0], strict=True
        ):
            assert 0 < issued < total
            assert issued + waited <= total


def test_parts_of_unlike_sizes(cli: Cli):
    done = cli(
        "+suite=collective", f"collective={','.join(RAGGED)}", "data_size=90KiB", "ragged=true", "world_size=3", *QUICK
    )
    statuses = {record["config"]["collective"]: record["status"] for record in cli.records()}
    assert statuses == {"all_gather": "unavailable", "reduce_scatter": "ok", "all_to_all": "ok"}, done.stdout
    assert "gloo gathers parts of one size only" in done.stdout
    assert cli.records()[2]["cases"][0]["payload_bytes"] == 90 * 1024


def test_one_rank_has_no_bandwidth(cli: Cli):
    names = ",".join(name for name in COLLECTIVES if name != "send_recv")
    done = cli("+suite=collective", f"collective={names}", "data_size=1KiB", "world_size=1", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GB/s" not in done.stdout


def test_allreduce_is_a_preset(cli: Cli):
    done = cli("+suite=allreduce", "data_size=1KiB", "reduce_op=avg", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert (record["suite"], record["config"]["collective"]) == ("collective", "all_reduce")
    assert record["config"]["data_size"] == 2**-10
    assert done.stdout.startswith("all_reduce gloo cpu x2")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["collective=all_sum"], "collective=all_sum: allowed is all_reduce|all_gather"),
        (["data_size=4MB"], "data_size=4MB: allowed are MiB > 0, or a size with its unit"),
        (["collective=broadcast", "reduce_op=max"], "reduce_op=max: broadcast has none"),
        (["collective=broadcast", "ragged=true"], "ragged=true: allowed with collective=all_gather|reduce_scatter"),
        (["collective=send_recv", "world_size=1"], "collective=send_recv: needs two ranks"),
        (["collective=send_recv", "async_op=true"], "async_op=true: a ping-pong waits"),
        (["dtype=int32", "reduce_op=avg"], "reduce_op=avg: allowed with a floating-point dtype"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(cli: Cli, given, said):
    done = cli("+suite=collective", *given)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


BROKEN = """
import torch.distributed as dist
from benchkit.models.collectives import operations
from benchkit.registry import suite
from benchkit.suites.collective import CollectiveConfig, collective as sound

{breakage}

@suite
def broken(config: CollectiveConfig, rank):
    "One thing of it is broken."
    return sound(config, rank)
"""
SWAPPED = """
sound_start = operations.started
def started(call):
    run = sound_start(call)
    def start(asynchronous):
        work = run(asynchronous)
        if work is not None:
            work.wait()
        for buffer in (call.args[0] if isinstance(call.args[0], list) else [call.args[0]]):
            buffer.copy_(buffer.roll(1))
        return None
    return start
operations.started = started
"""
STALE = """
operations.started = lambda call: lambda asynchronous: None
def silent(self):
    return operations.Operation(lambda _: None, [], [operations.Drawn(b := self.new(self.parts[0]), 0, 0)], [b])
operations.Collective.send_recv = silent
"""
MISSING = """
sound_inputs = operations.Collective.inputs
def inputs(self, held, turn, seed):
    values = sound_inputs(self, held, turn, seed)
    return values.zero_() if held.rank == self.rank == self.world_size - 1 else values
operations.Collective.inputs = inputs
"""


def broken_statuses(cli: Cli, breakage: str, names: list[str]) -> dict[str, str]:
    sound = (ROOT / "conf" / "suite" / "collective.yaml").read_text()
    yaml = sound.replace("suite@_global_: collective", "suite@_global_: broken").replace(
        "suite: collective", "suite: broken"
    )
    cli.with_suite(BROKEN.format(breakage=breakage), yaml)
    done = cli("+suite=broken", f"collective={','.join(names)}", "data_size=64KiB", "world_size=3", *QUICK)
    assert done.returncode == 1, done.stdout + done.stderr
    return {record["config"]["collective"]: record["cases"][0]["status"] for record in cli.records()}


def test_a_swapped_chunk_is_invalid_in_every_collective(cli: Cli):
    names = [name for name in COLLECTIVES if name not in ("barrier", "send_recv", "gather")]
    assert broken_statuses(cli, SWAPPED, names) == dict.fromkeys(names, "invalid")


def test_what_never_arrives_is_invalid_in_every_collective(cli: Cli):
    """A stale buffer, and a barrier that holds nobody."""
    names = list(COLLECTIVES)
    assert broken_statuses(cli, STALE, names) == dict.fromkeys(names, "invalid")


def test_a_rank_that_gives_nothing_makes_the_result_invalid(cli: Cli):
    names = ["all_reduce", "reduce", "reduce_scatter", "all_gather", "gather", "all_to_all"]
    assert broken_statuses(cli, MISSING, names) == dict.fromkeys(names, "invalid")
