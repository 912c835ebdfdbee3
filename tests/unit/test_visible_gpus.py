"""Which GPUs ranks can use, by a fake torch.cuda and by fakes of the process that asks it."""

import json
import runpy
import sys
from types import SimpleNamespace

import pytest
import torch
from benchkit import environment
from benchkit import gpus as smi
from benchkit.environment import VisibleGpus, enumerate_gpus

from tests.support.entries.agents import EXCHANGE_TIMEOUT_S

A, B = (f"{letter * 8}-{letter * 4}-{letter * 4}-{letter * 4}-{letter * 12}" for letter in "ab")
NO_UUID = "00000000-0000-0000-0000-000000000000"


def gpu(uuid, name="NVIDIA A100-SXM4-40GB"):
    return SimpleNamespace(uuid=uuid, name=name)


@pytest.fixture
def cuda(monkeypatch):
    """Torch with these GPUs, in the order of CUDA; with a reason, CUDA cannot start."""

    def install(*gpus, error=None):
        def start():
            if error:
                raise error

        monkeypatch.setattr(torch.cuda, "init", start)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(gpus))
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: gpus[index])

    return install


@pytest.mark.parametrize(
    ("gpus", "names"),
    [
        ([gpu(B), gpu(A)], [f"GPU-{B}", f"GPU-{A}"]),  # in the order of CUDA
        ([gpu(A, "NVIDIA A100-SXM4-40GB MIG 3g.20gb")], [f"MIG-{A}"]),
        ([gpu(A)] * 2, ["0", "1"]),  # not told apart
        ([gpu(NO_UUID)] * 2, ["0", "1"]),
        ([SimpleNamespace(name="AMD Instinct MI250X")] * 2, ["0", "1"]),
    ],
)
def test_gpus_have_uuids_in_order_of_cuda_or_numbers(cuda, gpus, names):
    cuda(*gpus)
    assert enumerate_gpus() == VisibleGpus(names)


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError, torch.cuda.DeferredCudaCallError])
def test_refusal_of_cuda_is_first_line_of_reason(cuda, kind):
    cuda(error=kind("too old\nPlease update"))
    assert enumerate_gpus() == VisibleGpus(missing_reason="too old")


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A host whose Python is this shell script, with or without a driver and a torch for GPUs."""

    def found(script, driver=True, built=True):
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/asked\n{script}\n")
        python.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(python))
        monkeypatch.setattr(environment, "DRIVERS", (str(tmp_path if driver else tmp_path / "none"),))
        monkeypatch.setattr(environment, "is_built_for_gpus", lambda: built)
        return environment.visible_gpus()

    environment.visible_gpus.cache_clear()
    yield found
    environment.visible_gpus.cache_clear()


def asked(folder):
    path = folder / "asked"
    return path.read_text().splitlines() if path.exists() else []


def test_process_is_asked_once(host, tmp_path):
    printed = json.dumps({"names": ["GPU-a"], "lack": None})
    for _ in range(2):
        assert host(f"echo a line of torch; echo '{printed}'") == VisibleGpus(["GPU-a"])
    assert [line.split()[-2:] for line in asked(tmp_path)] == [["-m", "benchkit.environment"]]


@pytest.mark.parametrize("lacking", [{"driver": False}, {"built": False}])
def test_no_process_starts_without_driver_or_build(host, tmp_path, lacking):
    assert host("exit 1", **lacking).missing_reason
    assert asked(tmp_path) == []


def test_gpus_that_do_not_start_have_reason(host, monkeypatch, caplog, golden):
    for script, limit_s in (
        ("""echo '{"missing_reason": "too old"}'""", 60),
        ("echo Traceback >&2; echo no libcudart.so >&2; exit 1", 60),
        ("kill -SEGV $$", 60),
        ("exec sleep 60", 0.2),
    ):
        monkeypatch.setattr(environment, "LIMIT_S", limit_s)
        environment.visible_gpus.cache_clear()
        found = host(script)
        assert (found.names, caplog.messages[-1].endswith(found.missing_reason)) == ([], True)
    golden("\n".join(caplog.messages))


def test_other_agents_wait_for_all_that_asks_gpus():
    assert smi.LIMIT_S + smi.TOPOLOGY_LIMIT_S + environment.LIMIT_S < EXCHANGE_TIMEOUT_S


def test_module_prints_gpus_as_json(capsys):
    """As it runs here: this torch, or this machine, has no GPU, or CUDA tells them."""
    runpy.run_path(environment.__file__, run_name="__main__")
    found = VisibleGpus(**json.loads(capsys.readouterr().out))
    assert bool(found.names) != bool(found.missing_reason)
