"""What torch keeps for a whole process is set in every rank, whatever it inherits."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from benchkit.rank import backends, main
from benchkit.rank.rendezvous import Rendezvous
from benchkit.rank.torch_settings import set_up_torch

from tests.support.cli import ROOT

PROGRAM = """
import torch
from benchkit.rank.torch_settings import set_up_torch
before = torch.get_float32_matmul_precision()
set_up_torch(3, {})
print(before, torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32, torch.get_num_threads())
"""


def test_float32_is_never_tf32_by_inheritance():
    environment = {**os.environ, "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["high", "highest", "False", "3"]


@pytest.mark.parametrize(("stated", "left"), [({}, None), ({"NVIDIA_TF32_OVERRIDE": "0"}, "0")])
def test_override_of_tf32_is_dropped_unless_stated(monkeypatch, stated, left):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", stated.get("NVIDIA_TF32_OVERRIDE", "1"))
    set_up_torch(torch.get_num_threads(), stated)
    assert os.environ.get("NVIDIA_TF32_OVERRIDE") == left


def test_rank_sets_torch_up_before_it_joins(monkeypatch):
    calls = []

    def join(*_):
        calls.append("join")
        raise InterruptedError

    config = SimpleNamespace(backend=SimpleNamespace(env={"A": "1"}))
    monkeypatch.setattr(main, "set_up_torch", lambda *given: calls.append(given))
    monkeypatch.setattr(backends, "join", join)
    with pytest.raises(InterruptedError):
        main.run_rank(
            SimpleNamespace(
                threads=3, config=config, place=SimpleNamespace(rank=0), world_size=1, rendezvous=Rendezvous()
            )
        )
    assert calls == [(3, {"A": "1"}), "join"]
