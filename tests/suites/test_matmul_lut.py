from types import SimpleNamespace

import torch
from benchkit.suites.matmul_lut.cases import matmul

from tests.support import fakes


def test_background_products_begin_and_end_together(monkeypatch):
    """Each other stream waits for the stream that is timed, which at last waits for all of them."""
    cuda = fakes.FakeGraphs()
    for name in ("Stream", "stream", "current_stream"):
        monkeypatch.setattr(f"torch.cuda.{name}", getattr(cuda, name))
    multiply = torch.mm
    monkeypatch.setattr("torch.mm", lambda *args, out: cuda.calls.append("mm") or multiply(*args, out=out))
    config = SimpleNamespace(dtype="float32", bg_streams=2)
    rank = SimpleNamespace(memory_shortage=lambda size: "", seed=0, index=0, world_size=1, device=torch.device("cpu"))
    matmul(4, config, rank).step()
    beside = ["side waits for main", "on side", "mm"]
    assert cuda.calls == [*beside, *beside, "mm", *["main waits for side"] * 2]
