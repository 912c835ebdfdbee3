"""What benchkit/api/torch_internals.py relies on inside of torch's compiler, which promises none of it."""

import pytest
import torch
from benchkit.api import torch_internals
from benchkit.api.torch_internals import Compilations, compilations

ADVICE = f"torch {torch.__version__} has changed: {{}}; adapt benchkit/api/torch_internals.py, then this test"


@pytest.fixture(autouse=True)
def _compiler_is_fresh():
    torch_internals.reset_compiler()
    yield
    torch_internals.reset_compiler()


def test_compilations_are_counted():
    compiled = torch.compile(lambda rows: rows.sin() + 1, backend="eager")
    compiled(torch.ones(3))
    first = compilations()
    assert first.seconds > 0, ADVICE.format("compilations() has no duration_us")
    assert (first.graphs, first.graph_breaks, first.recompilations) == (1, 0, 0), ADVICE.format("unique_graphs")
    compiled(torch.ones(3))
    assert compilations() == first
    compiled(torch.ones(4))
    assert (compilations().graphs, compilations().recompilations) == (2, 1), ADVICE.format("recompile_reason")
    assert compilations().seconds > first.seconds


def test_graph_breaks_are_counted():
    torch.compile(lambda rows: rows + 1 if rows.sum() > 0 else rows, backend="eager")(torch.ones(3))
    assert compilations().graph_breaks == 1, ADVICE.format("counters['graph_break']")


def test_no_compilation_is_forgotten():
    compiled = torch.compile(lambda rows: rows.sin() + 1, backend="eager", dynamic=False)
    torch._dynamo.utils.set_compilation_metrics_limit(2)  # torch's is 64
    for size in range(2, 7):
        compiled(torch.ones(size))
        compilations()
    assert compilations().recompilations == 4, ADVICE.format("set_compilation_metrics_limit()")


def test_reset_forgets_counts():
    torch.compile(torch.neg, backend="eager")(torch.ones(3))
    torch_internals.reset_compiler()
    assert compilations() == Compilations()


def test_compiler_that_has_compiled_nothing_is_not_reset(monkeypatch):
    """On a GPU that loads inductor, for 3 s."""
    torch_internals.reset_compiler()
    monkeypatch.setattr("torch.compiler.reset", pytest.fail)
    torch_internals.reset_compiler()


def test_compiler_that_is_not_loaded_has_no_counts(monkeypatch):
    monkeypatch.setattr(torch_internals, "is_compiler_loaded", lambda: False)
    monkeypatch.setattr("torch.compiler.reset", pytest.fail)
    torch_internals.reset_compiler()
    assert compilations() == Compilations()


def test_progress_bars_need_no_semaphore(monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr("tqdm.std.TqdmDefaultWriteLock", pytest.fail)
    if hasattr(tqdm.tqdm, "_lock"):
        monkeypatch.delattr(tqdm.tqdm, "_lock")
    torch_internals.keep_progress_bars_local()
    tqdm.tqdm.get_lock()
