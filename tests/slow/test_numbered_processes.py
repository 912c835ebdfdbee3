"""Launchers that are known by their variables alone: two processes with exactly these measure one sweep together."""

import socket

import pytest

from tests.support.cli import ends

JOB = "job-7"
LOCAL = "127.0.0.1"


def free_port():
    with socket.socket() as listener:
        listener.bind((LOCAL, 0))
        return str(listener.getsockname()[1])


def variables_of(by, index, port):
    """What a launcher sets in the process of an index, of two on one host."""
    n, two = str(index), "2"
    master = {"MASTER_ADDR": LOCAL, "MASTER_PORT": port}
    return {
        "env": {"RANK": n, "WORLD_SIZE": two, **master},
        "flux": {"FLUX_JOB_ID": JOB, "FLUX_TASK_RANK": n, "FLUX_JOB_SIZE": two, "PMI_RANK": n, "PMI_SIZE": two},
        "pals": {"PALS_APID": JOB, "PALS_RANKID": n, "PMI_RANK": n, "PMI_SIZE": two, "PMI_LOCAL_SIZE": two},
        "jsrun": {"LSB_JOBID": "7", "JSM_NAMESPACE_RANK": n, "JSM_NAMESPACE_SIZE": two, "PMIX_RANK": n},
        "skypilot": {
            "SKYPILOT_TASK_ID": JOB, "SKYPILOT_NODE_RANK": n, "SKYPILOT_NUM_NODES": two,
            "SKYPILOT_NODE_IPS": f"{LOCAL}\n{LOCAL}", "MASTER_PORT": port,
        },
        "indexed_job": {"JOB_COMPLETION_INDEX": n, "WORLD_SIZE": two, **master},
    }[by]  # fmt: skip


@pytest.mark.parametrize("secret", ["", "a word of 18 signs"], ids=["file", "secret"])
@pytest.mark.parametrize("by", ["env", "flux", "pals", "jsrun", "skypilot", "indexed_job"])
def test_two_processes_measure_one_sweep(cli, by, secret):
    """PyTorchJob's WORLD_SIZE counts pods: here two, of four ranks each."""
    line = ["+suite=allreduce", "data_size=1KiB", "measure=quick", "world_size=8", "-m", "seed=1,2"]
    common = {"BENCHKIT_SECRET": secret} if secret else {}
    port = free_port()
    processes = [
        cli.start(*line, **variables_of(by, index, port), **common, SLURMD_NODENAME=f"n{index}") for index in (1, 0)
    ]
    for code, _, err in ends(processes):
        assert code == 0, err
    records = cli.records()
    assert [record["status"] for record in records] == ["ok", "ok"]
    for record in records:
        assert (record["launched_by"], record["world_size"]) == (by, 8)
        ranks = {agent["host"]: agent["ranks"] for agent in record["agents"]}
        assert ranks == {"n0": [0, 1, 2, 3], "n1": [4, 5, 6, 7]}


def test_processes_without_a_meeting_place_are_refused(cli):
    for code, _, err in ends([cli.start("+suite=allreduce", RANK=str(index), WORLD_SIZE="2") for index in (0, 1)]):
        assert (code, err.count("\n")) == (2, 1)
        assert "MASTER_ADDR" in err
    assert not cli.records()
