"""Compiled code from its first call on: what is counted, what is missing here, and which results are wrong."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from benchkit.api.keys import ModelConfig
from benchkit.errors import InvalidResult
from benchkit.suites.compile import cases
from benchkit.suites.compile.suite import COMPILERS, INDUCTOR, WORKLOADS

from tests.support import fakes
from tests.support.cli import Cli

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
MODEL = ModelConfig(name="test", d_model=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=3)


def config(**changes):
    settings = {
        "workload": "pointwise", "compiler": "eager", "cache": "cold", "dynamic": "auto", "batch_sizes": [2],
        "width": 8, "depth": 2, "context_length": 3, "backward": True, "dtype": "float32", "model": None,
        "measure": fakes.plan(mode="cold", max_iterations=6),
    }  # fmt: skip
    return SimpleNamespace(**(settings | changes))


@pytest.fixture
def rank(monkeypatch):
    monkeypatch.setattr(cases, "all_gather_json", lambda value: [value])
    monkeypatch.setattr(cases, "first_reason", lambda reason: reason)
    return SimpleNamespace(device=CPU, seed=0, memory_shortage=lambda needed: "")


def timed(rank, **changes):
    """The case after its calls, as the timer makes them."""
    wanted = config(**changes)
    [case] = cases.cases_of(wanted, rank)
    for _ in range(wanted.measure.max_iterations):
        case.reset()
        case.step()
        case.observe({})
    return case


@pytest.mark.parametrize(("workload", "backward"), [*((name, True) for name in WORKLOADS), (WORKLOADS[0], False)])
def test_eager_results_are_right(workload, backward, rank):
    model = MODEL if workload == "transformer_layer" else None
    case = timed(rank, workload=workload, backward=backward, model=model, batch_sizes=[2, 3])
    fakes.verify(case)
    assert case.details() == {"calls_per_size": 3}


@pytest.mark.parametrize(("dynamic", "recompiled", "calls"), [("auto", 1, "1, 3"), (True, 0, "1")])
def test_recompilations_follow_sizes(dynamic, recompiled, calls, rank):
    case = timed(rank, compiler="aot_eager", batch_sizes=[2, 3, 4], dynamic=dynamic)
    fakes.verify(case)
    details = case.details()
    assert (details["recompilations"], details["compiled_at_calls"]) == (recompiled, calls)
    assert details["compile_s"] > 0
    assert (details["recompile_s"] > 0) == bool(recompiled)


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's own, within a trace
def test_branch_breaks_graph(rank):
    details = timed(rank, compiler="aot_eager", workload="branching").details()
    assert details["graph_breaks"] >= 1
    assert details["graphs"] > 1


def test_sizes_have_equal_parts_of_calls(rank):
    run = cases.CompileJob(config(batch_sizes=[5, 6, 7]), rank)
    sizes = []
    for _ in range(8):  # two more, as a trace takes them
        run.choose_input()
        sizes.append(len(run._input))
        run.observe({})
    assert sizes == [5, 5, 6, 6, 7, 7, 7, 7]


def test_first_call_compiles_and_nothing_before(rank, monkeypatch):
    prepared = []
    monkeypatch.setattr(cases, "prepare_step", lambda *given: prepared.append(given) or torch.clone)
    [case] = cases.cases_of(config(compiler="aot_eager"), rank)
    case.reset()
    assert prepared == []
    case.step()
    case.step()
    assert len(prepared) == 1


@pytest.mark.parametrize("broken", ["result", "gradient", "no gradient"])
def test_wrong_result_is_invalid(broken, rank, monkeypatch):
    right = cases.prepare_step

    def wrong(network, wanted):
        step = right(network, wanted)

        def call(rows):
            found = step(rows)
            first = next(network.parameters())
            first.grad = None if broken == "no gradient" else first.grad * (1.01 if broken == "gradient" else 1)
            return found * torch.nan if broken == "result" else found

        return call

    monkeypatch.setattr(cases, "prepare_step", wrong)
    case = timed(rank)
    with pytest.raises(InvalidResult, match=r"^result of \[2, 8\]" if broken == "result" else r"^gradient of 0\.gain"):
        fakes.verify(case)


def test_loaded_compiler_is_told(rank, monkeypatch):
    for loaded in (True, False):
        monkeypatch.setattr(cases, "is_compiler_loaded", lambda loaded=loaded: loaded)
        [case] = cases.cases_of(config(compiler="aot_eager"), rank)
        assert bool(case.warnings) == loaded


def test_large_step_is_skipped(rank):
    rank.memory_shortage = lambda needed: f"needs {needed:.0f}"
    [case] = cases.cases_of(config(), rank)
    assert case.skip.split()[1] == "2304"  # 32 weights, their gradients and 128 activations, in float32 and float64


def test_gpus_have_graphs():
    lacking = [name for name in COMPILERS if cases.compiler_missing(config(compiler=name), CPU)]
    assert lacking == ["reduce-overhead", "cuda_graph"]
    assert cases.compiler_missing(config(compiler="cuda_graph"), CUDA) == ""


@pytest.mark.parametrize(
    ("replaced", "by"), [("shutil.which", None), ("sysconfig.get_path", "/nowhere")], ids=["compiler", "headers"]
)
def test_missing_tool_is_told(replaced, by, monkeypatch, rank, golden):
    monkeypatch.setenv("CXX", "g++-0")
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(replaced, lambda name: by)
    [case] = cases.cases_of(config(compiler="default"), rank)
    golden(case.unavailable)
    assert cases.compiler_missing(config(compiler="aot_eager"), CPU) == ""


class Cuda:
    """torch.cuda as far as a capture needs it: a graph calls again what was called within it."""

    def __init__(self):
        self.graphs = []

    def current_stream(self):
        return self

    Stream = current_stream

    def wait_stream(self, other):
        pass

    @contextmanager
    def stream(self, other):
        yield

    def CUDAGraph(self):
        self.graphs.append(SimpleNamespace(replayed=0))
        graph = self.graphs[-1]
        graph.replay = lambda: setattr(graph, "replayed", graph.replayed + 1)
        return graph

    @contextmanager
    def graph(self, graph, stream, capture_error_mode):
        yield


def test_each_shape_is_captured_once():
    cuda, weight = Cuda(), torch.zeros(1)
    calls = []

    def step(rows):
        calls.append(len(rows))
        weight.grad = torch.full((1,), float(len(rows)))
        return rows.sum()

    graphs = cases.CudaGraphs(step, [weight], cuda)
    for rows in (2, 2, 3, 2):
        assert graphs(torch.ones(rows)) == rows
        assert weight.grad == rows  # that of the graph, although another one was captured last
    assert calls == [2] * 4 + [3] * 4  # three to warm up, one within the capture
    assert [graph.replayed for graph in cuda.graphs] == [3, 1]
    assert len(graphs) == 2


def test_warm_cache_is_filled_apart(rank, monkeypatch):
    asked = []
    monkeypatch.setattr(cases, "run_in_fresh_process", lambda *given: asked.append(given))
    monkeypatch.setattr(cases, "compiler_missing", lambda *given: "")
    for compiler in ("eager", *INDUCTOR):
        for cache in ("cold", "warm"):
            monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "theirs")
            run = cases.CompileJob(config(compiler=compiler, cache=cache), rank)
            assert bool(asked) == (compiler != "eager" and cache == "warm")
            asked.clear()
            run.details()  # removes the folder


def test_folder_of_cache_is_removed(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "theirs")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cache = cases.DiskCache()
    [folder] = tmp_path.iterdir()
    assert list(folder.iterdir()) == []
    cache.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ranks_compile_or_say_what_is_missing(cli: Cli):
    done = cli(
        "+suite=compile", "compiler=eager,aot_eager,reduce-overhead", "world_size=2", "measure=cold_curve",
        "measure.max_iterations=6", "width=8", "depth=1", "batch_sizes=[2,3]", "hardware=cpu", "threads_per_rank=1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "leaked" not in done.stderr
    eager, compiled, graphs = (record["cases"][0] for record in cli.records())
    assert [case["status"] for case in (eager, compiled, graphs)] == ["ok", "ok", "unavailable"]
    assert len(compiled["samples_s"]) == 2
    assert compiled["details"]["compiled_at_calls"] == "1, 4"
    assert sum(compiled["blocks"]) == 6
    assert not any(record["warnings"] for record in cli.records())  # no rank has the compiler before its first call


@pytest.mark.slow
def test_warm_cache_has_what_is_compiled(cli: Cli):
    done = cli(
        "+suite=compile", "compiler=default", "cache=cold,warm", "workload=pointwise", "measure.max_iterations=4",
        "width=8", "depth=1", "batch_sizes=[2,3]", "hardware=cpu", "threads_per_rank=1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "leaked" not in done.stderr
    cold, warm = (record["cases"][0]["details"] for record in cli.records())
    assert (cold["cache_hits"], warm["cache_misses"]) == (0, 0)
    assert cold["cache_misses"] == warm["cache_hits"] > 0
    assert cold["recompilations"] == 1
