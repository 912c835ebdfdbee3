"""Suites, backends and faults on emulated GPUs: statuses, records, and what is left."""

import itertools
import json
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchkit.suites.tp_columnwise.symmetric_memory import TOO_LONG

from tests.support.cli import PATIENCE_S, begun, wait_until
from tests.support.cli import ends as agents
from tests.support.hosts import started_on

SMALL = {
    "allreduce": ("data_size=0.0625",),
    "collective": ("data_size=0.0625", "collective=all_to_all"),
    "pair_matrix": ("sizes=[8B,64KiB]", "minutes=0.2"),
    "rank_speed": ("matmul_size=128", "memory_size=1"),
    "matmul_lut": ("sizes=[128]", "hardware.slowdown=1"),
    "tp_columnwise": ("m=256", "n=128", "k=128"),
    "tp_rowwise": ("m=256", "n=128", "k=128"),
    "ring_attention": ("seq_len=256", "strategies=[reference,even,zigzag]", "hardware.slowdown=1"),
    "ring_model": ("model=tiny", "seq_len=256", "decode_tokens=2", "hardware.slowdown=1"),
    "transformer": ("model=tiny", "context_length=32"),
    "compile": ("workload=pointwise", "width=64", "depth=1", "compiler=eager"),
}
"""Each suite at sizes that take the same path as large ones."""
ALONE = {"allreduce": "skipped", "collective": "skipped", "pair_matrix": "unavailable"}
"""How a point of one rank ends, of suites that need two."""
MAY_LACK = ("symmetric memory", "TransformerEngine")
"""What the emulator, or this environment, does not have."""
WAITS = re.compile(r"cuda\w*Synchronize|cudaMemcpyAsync \d+ kind [12]")
"""A wait of the host, or a copy from or to it."""
FROM_HOST = re.compile(r"cudaMemcpyAsync (\d+) kind 1")
COPIES = {"rank_speed"}
"""Suites that time such copies."""


def point(suite, *more):
    return f"+suite={suite}", "hardware=cuda", "measure=quick", "timeout_s=240", *SMALL[suite], *more


def ends(records):
    return [(record["world_size"], record["status"]) for record in records]


@pytest.mark.parametrize("suite", sorted(SMALL))
def test_suite_runs_on_one_to_eight_gpus(machine, suite):
    gpus = machine(8)
    done = gpus(*point(suite, "-m", "world_size=1,2,4,8"))
    records = gpus.records()
    assert ends(records) == [(1, ALONE.get(suite, "ok")), (2, "ok"), (4, "ok"), (8, "ok")], done.stdout + done.stderr
    assert done.returncode == 0
    for case in itertools.chain.from_iterable(record["cases"] for record in records[1:]):
        assert case["status"] == "ok" or case["reason"].startswith(MAY_LACK), case
    assert {gpu["name"] for gpu in records[-1]["rank_devices"]} == {"Emulated H100 80GB HBM3"}
    assert len({gpu["uuid"] for gpu in records[-1]["rank_devices"]}) == 8


def test_auto_shard_runs_on_one_to_eight_gpus(machine):
    gpus = machine(8)
    given = "workload=matmul_256x128x128", "devices=[1,2,4,8]", "world_size=8"
    done = gpus("+suite=auto_shard", "hardware=cuda", "measure=quick", "timeout_s=240", *given)
    [record] = gpus.records()
    assert (done.returncode, record["status"]) == (0, "ok")
    assert {case["status"] for case in record["cases"]} == {"ok"}


@pytest.mark.parametrize("suite", ["allreduce", "matmul_lut", "tp_columnwise"])
def test_step_is_captured_as_graph(machine, suite):
    gpus = machine(2)
    done = gpus(*point(suite, "measure.mode=graph", "world_size=2"))
    [record] = gpus.records()
    assert (done.returncode, record["status"]) == (0, "ok")
    assert "ok" in {case["status"] for case in record["cases"]}


@pytest.mark.parametrize("suite", sorted(SMALL.keys() - COPIES))
def test_timed_step_waits_for_nothing(machine, tmp_path, suite):
    gpus = machine(2)
    done = gpus(*point(suite, "world_size=2"), EMULATED_CALLS=str(tmp_path / "calls"))
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = gpus.records()
    by_rank = [timed for path in tmp_path.glob("calls.*") if (timed := list(timed_steps(path)))]
    assert len(by_rank) == 2
    for timed in by_rank:  # the calls of a case that are checked are prepared within their times, which no record holds
        waiting = [step for step in timed if any(map(WAITS.match, step))]
        assert len(waiting) <= 2 * len(record["cases"]), waiting[-1]


@pytest.mark.parametrize(
    ("suite", "small", "large", "grows_by"),
    [
        ("tp_columnwise", "m=1024", "m=2048", 1024 * 128 * 4),
        ("tp_rowwise", "m=1024", "m=2048", 1024 * 128 * 4),
        ("ring_attention", "seq_len=256", "seq_len=512", 256 * 4096 * 4),
    ],
)
def test_operands_of_checks_are_drawn_on_device(machine, tmp_path, suite, small, large, grows_by):
    """So a larger matrix does not mean that more is copied from the host; it is checked several times."""
    gpus, copied = machine(2), []
    for size in (small, large):
        calls = tmp_path / size
        measured = "measure=fixed", "measure.max_iterations=6", "measure.alone=never"
        given = [each for each in SMALL[suite] if each.split("=")[0] != size.split("=")[0]]
        done = gpus(
            f"+suite={suite}", "hardware=cuda", "world_size=2", size, *given, *measured, EMULATED_CALLS=str(calls)
        )
        assert done.returncode == 0, done.stdout + done.stderr
        logs = "".join(path.read_text() for path in tmp_path.glob(f"{calls.name}.*"))
        copied.append(sum(map(int, FROM_HOST.findall(logs))) / 2)
    assert copied[1] - copied[0] < grows_by, copied


def timed_steps(calls: Path) -> Iterator[list[str]]:
    """The calls between the two events of each time that was read."""
    lines = calls.read_text().splitlines()
    recorded: dict[str, int] = {}
    for index, line in enumerate(lines):
        name, _, events = line.partition(" ")
        if name == "cudaEventRecord":
            recorded[events] = index
        elif name == "cudaEventElapsedTime":
            start, end = (recorded[event] for event in events.split())
            yield lines[start + 1 : end]


def test_several_ranks_per_gpu_and_fewer_gpus_than_ranks(machine):
    gpus = machine(2)
    done = gpus(*point("allreduce", "-m", "world_size=2,4"))
    assert (done.returncode, ends(gpus.records())) == (0, [(2, "ok"), (4, "unavailable")])
    given = "hardware=cuda_shared", "world_size=4", "backend=nccl", "+backend.env.NCCL_MULTI_RANK_GPU_ENABLE=1"
    assert gpus(*point("allreduce", *given)).returncode == 0
    assert ends(gpus.records()) == [(4, "ok")]


def test_symmetric_memory_that_hangs_costs_no_other_case(machine):
    """It is tried beside the ranks, for a minute."""
    gpus = machine(2)
    done = gpus(*point("tp_columnwise", "world_size=2"), EMULATED_SYMMETRIC_MEMORY_HANGS="1")
    [record] = gpus.records()
    assert (done.returncode, record["status"]) == (0, "ok")
    [lacking] = [case for case in record["cases"] if case["status"] != "ok"]
    assert lacking["labels"] == {"implementation": "symmetric_memory"}
    assert TOO_LONG in lacking["reason"]


def test_gpus_of_two_hosts_are_counted_and_used(machine, hosts):
    gpus = machine(2)
    sweep = "sweep=nccl_gpu", "data_size=0.0625", "measure=quick", "timeout_s=240"
    ends_of_agents = agents(started_on(gpus, hosts, *sweep))
    records = gpus.records()
    assert ends(records) == [(2, "ok"), (4, "ok")], ends_of_agents
    assert [agent["host"] for agent in records[1]["agents"]] == ["n0", "n1"]
    assert [agent["ranks"] for agent in records[1]["agents"]] == [[0, 1], [2, 3]]


def test_reserved_gpus_are_unavailable(machine):
    gpus = machine(2)
    done = gpus(*point("allreduce", "world_size=2"), EMULATED_RESERVED="1")
    assert ends(gpus.records()) == [(2, "unavailable")], done.stdout + done.stderr


def test_buffers_that_do_not_fit_are_skipped(machine):
    gpus = machine(2)
    gpus("+suite=allreduce", "hardware=cuda", "world_size=2", "data_size=1000", "measure=quick", EMULATED_GPU_GB="1")
    assert ends(gpus.records()) == [(2, "skipped")]


def test_mps_gives_each_rank_its_share(machine, tmp_path):
    gpus = machine(2)
    log = tmp_path / "told"
    given = "hardware.slowdown=2", "world_size=2"
    done = gpus(*point("ring_attention")[:-1], *given, EMULATED_MPS_LOG=str(log))
    [record] = gpus.records()
    assert (done.returncode, record["status"], record["slowdown"]["mechanism"]) == (0, "ok", "mps")
    assert [gpu["multiprocessors"] for gpu in record["rank_devices"]] == [132, 66]
    told = [line.split()[0] for line in log.read_text().splitlines()]
    assert (told.count("-d"), told[-1]) == (1, "quit")


def test_study_of_unequal_gpus_ends_with_its_report(machine):
    """Its products, at the shares that the ranks have, are the look-up table of its rings."""
    gpus = machine(2)
    small = "seq_len=256", "slowdown=2", "sizes=64,128", "measure=quick", "max_seconds=1"
    done = gpus("study=hetero_ring_gpu", *small)
    assert done.returncode == 0, done.stdout + done.stderr
    [study] = (gpus.folder / "outputs").glob("*_hetero_ring_gpu")
    assert {json.loads(path.read_text())["status"] for path in study.glob("*/*/record.json")} == {"ok"}
    assert (study / "table" / "matmul_lut.csv").exists()
    assert (study / "report" / "speedups.csv").exists()


def test_mps_ends_clients_that_hang(machine, tmp_path):
    gpus = machine(2)
    log = tmp_path / "told"
    given = "hardware.slowdown=2", "world_size=2", "timeout_s=40"
    gpus(*point("ring_attention")[:-1], *given, EMULATED_HANG_AT="9", EMULATED_MPS_LOG=str(log))
    assert ends(gpus.records()) == [(2, "timeout")]
    assert log.read_text().count("terminate_client 1234 ") == 2


def test_mps_that_does_not_start_is_a_reason(machine):
    gpus = machine(2)
    gpus(*point("ring_attention")[:-1], "hardware.slowdown=2", "world_size=2", EMULATED_MPS_FAILS="1")
    [record] = gpus.records()
    assert record["status"] in ("unavailable", "error")
    assert "MPS" in record["error"]["message"]


def test_hot_gpu_is_noted(machine):
    gpus = machine(2)
    gpus(*point("allreduce", "world_size=2"), EMULATED_HOT="1")
    [record] = gpus.records()
    assert record["status"] == "ok"
    assert any("held back" in warning for warning in record["warnings"])


def test_collective_that_hangs_is_a_timeout_with_traces(machine):
    gpus = machine(2)
    done = gpus(*point("allreduce", "world_size=2", "timeout_s=20"), EMULATED_HANG_AT="9")
    [record] = gpus.records()
    assert (done.returncode, record["status"]) == (1, "timeout")
    assert len(list((gpus.folder / "outputs" / "latest" / "0").glob("nccl_trace_rank_*"))) == 2


def test_asynchronous_error_ends_point_with_words_of_nccl(machine):
    """The point's time-out is far beyond what the test waits for."""
    gpus = machine(2)
    done = gpus(
        *point("allreduce", "-m", "world_size=2", "data_size=0.0625,0.125", "timeout_s=3600"), EMULATED_ERROR_AT="9"
    )
    records = gpus.records()
    assert (done.returncode, [record["status"] for record in records]) == (1, ["error", "error"])
    assert all("remote process exited or there was a network error" in record["error"]["message"] for record in records)


@pytest.mark.parametrize("variables", [{"EMULATED_OOM_AT": "2"}, {"EMULATED_LOST_AT": "200"}])
def test_gpu_that_fails_is_an_ended_point(machine, variables):
    gpus = machine(2)
    done = gpus(*point("tp_columnwise", "world_size=2"), **variables)
    [record] = gpus.records()
    assert done.returncode == 1
    assert record["status"] in ("oom", "error", "crash"), record["status"]
    assert "CUDA" in record["error"]["message"]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(4))
def test_killed_command_leaves_nothing(machine, tmp_path, seed):
    gpus = machine(2)
    process = gpus.start(*point("ring_attention")[:-1], "hardware.slowdown=2", "world_size=2")
    assert wait_until(lambda: begun(gpus, 0))
    time.sleep(random.Random(seed).uniform(0, 6))
    process.send_signal(signal.SIGKILL if seed % 2 else signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert wait_until(lambda: not gpus.processes())
    assert wait_until(lambda: not [name for name in os.listdir("/dev/shm") if name.startswith("benchkit-emulated")])


def test_fork_server_begins_no_cuda(machine, tmp_path):
    """A process forked after CUDA has begun cannot use it."""
    gpus = machine(2)
    given = "measure.target_rel_ci=1e-6", "measure.max_iterations=1000000", "measure.max_seconds=60"
    process = gpus.start(*point("allreduce", "world_size=2", *given), EMULATED_CALLS=str(tmp_path / "calls"))
    assert wait_until(lambda: begun(gpus, 0))
    running = gpus.processes()
    servers = {parent_of(pid) for pid in running} & set(running) - {process.pid}
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    began = {int(path.suffix[1:]) for path in tmp_path.glob("calls.*") if "cudaSetDevice" in path.read_text()}
    assert servers
    assert len(began) >= 2
    assert not began & servers


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
