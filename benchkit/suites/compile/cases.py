"""The one case of a job: a step from its first call on, as one compiler runs it.

Each compiler is a separate point: a fresh process, in which nothing is loaded or compiled.
"""

import copy
import importlib.util
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchkit.api.case import Call, Case, Details, Rank
from benchkit.api.fresh_process import run_in_fresh_process
from benchkit.api.memory import wait_for_device
from benchkit.api.p2p import all_gather_json, first_reason
from benchkit.api.torch_internals import (
    Compilations,
    compilations,
    is_compiler_loaded,
    keep_progress_bars_local,
    reset_compiler,
)
from benchkit.errors import InvalidResult, Reason
from benchkit.suites.compile.suite import (
    AOT_EAGER,
    BATCH_SIZES,
    CACHE_FOLDER,
    CACHE_HITS,
    CACHE_MISSES,
    CALLS_PER_SIZE,
    COMPILE_S,
    COMPILED_AT,
    CUDA_GRAPH,
    EAGER,
    GRAPH_BREAKS,
    GRAPHS,
    INDUCTOR,
    RECOMPILATIONS,
    RECOMPILE_S,
    WARM,
    CompileConfig,
    graphs_missing,
)
from benchkit.suites.compile.workloads import Function, build, needed_bytes, shape, step_of

WARM_UPS = 3
"""Calls on another stream before a capture, in which libraries make their workspaces."""


def compiler_missing(config: CompileConfig, device: torch.device) -> Reason:
    """Return why this machine cannot run the compiler, without loading it; or ""."""
    if reason := graphs_missing(config.compiler, device.type):
        return reason
    if config.compiler not in INDUCTOR:
        return ""
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        return f"compiler={config.compiler}: needs the package triton; install it beside torch"
    cxx = os.environ.get("CXX", "g++")
    if shutil.which(cxx) is None:
        return (
            f"compiler={config.compiler}: no C++ compiler {cxx} here; install one (g++), or name "
            "it in the variable CXX"
        )
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        return (
            f"compiler={config.compiler}: no {header} here; install Python's headers (python3-dev)"
        )
    return ""


def prepare_step(network: nn.Module, config: CompileConfig, cuda: Any = torch.cuda) -> Function:
    """Return the step of a network, which the compiler compiles at the first call."""
    own_step = partial(step_of, network, config.backward)
    if config.compiler == EAGER:
        return own_step(identity)
    if config.compiler == CUDA_GRAPH:
        return CudaGraphs(own_step(identity), list(network.parameters()), cuda)
    dynamic = None if config.dynamic == "auto" else str(config.dynamic).lower() == "true"
    kind = "backend" if config.compiler == AOT_EAGER else "mode"
    return own_step(partial(torch.compile, dynamic=dynamic, **{kind: config.compiler}))


def identity(function: Function) -> Function:
    return function


class CudaGraphs:
    """A step as CUDA graphs, one for each shape of its input, which stays in its place."""

    def __init__(self, step: Function, weights: list[Tensor], cuda: Any) -> None:
        self._step = step
        self._weights = weights
        self._cuda = cuda
        self._captured: dict[
            tuple[int, ...], tuple[Callable[[], None], Tensor, list[Tensor | None]]
        ] = {}

    def __len__(self) -> int:
        return len(self._captured)

    def __call__(self, rows: Tensor) -> Tensor:
        shape = tuple(rows.shape)
        if shape not in self._captured:
            self._captured[shape] = self._capture(rows)
        replay, result, gradients = self._captured[shape]
        replay()
        for weight, gradient in zip(self._weights, gradients, strict=True):
            weight.grad = gradient
        return result

    def _capture(self, rows: Tensor) -> tuple[Callable[[], None], Tensor, list[Tensor | None]]:
        current, side_stream = self._cuda.current_stream(), self._cuda.Stream()
        side_stream.wait_stream(current)
        with self._cuda.stream(side_stream):
            for _ in range(WARM_UPS):
                self._step(rows)
        current.wait_stream(side_stream)
        graph = self._cuda.CUDAGraph()
        # Other threads, such as NCCL's watchdog, may query events in the meantime.
        with self._cuda.graph(graph, stream=side_stream, capture_error_mode="thread_local"):
            result = self._step(rows)
        return graph.replay, result, [weight.grad for weight in self._weights]


class DiskCache:
    """An empty folder for inductor, from now on in this process and its children."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="benchkit_inductor_", ignore_cleanup_errors=True
        )
        os.environ[CACHE_FOLDER] = self._folder.name

    def fill(self, config: CompileConfig, device: torch.device) -> None:
        """Fill the cache by compiling in a fresh process.

        In this process that would load the compiler, and change the first call.
        """
        settings = torch.get_num_threads(), torch.get_float32_matmul_precision()
        run_in_fresh_process(run_once, config, str(device), *settings)

    def remove(self) -> None:
        self._folder.cleanup()  # a rank exits without the interpreter's end, which would do so


def run_once(config: CompileConfig, device: str, threads: int, precision: str) -> None:
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    step = prepare_step(build(config, torch.device(device)), config)
    for rows in config.batch_sizes:
        step(torch.zeros(shape(config, rows), dtype=getattr(torch, config.dtype), device=device))


TOLERANCE = {"float32": 1e-3, "bfloat16": 0.2}
LOADED_BEFORE = "the compiler was loaded before the first call, which is shorter for it"


def cases_of(config: CompileConfig, rank: Rank) -> list[Case]:
    labels = {BATCH_SIZES: ",".join(map(str, config.batch_sizes))}
    if reason := first_reason(compiler_missing(config, rank.device)):
        return [Case(labels=labels, unavailable=reason)]
    if shortage := rank.memory_shortage(needed_bytes(config)):
        return [Case(labels=labels, skip=shortage)]
    run = CompileJob(config, rank)
    return [
        Case(
            step=run.step,
            labels=labels,
            reset=run.choose_input,
            verify=run.verify,
            observe=run.observe,
            details=run.details,
            warnings=(LOADED_BEFORE,) if run.is_compiler_loaded else (),
        )
    ]


class CompileJob:
    def __init__(self, config: CompileConfig, rank: Rank) -> None:
        self._config = config
        is_compiled = config.compiler not in (EAGER, CUDA_GRAPH)
        self.is_compiler_loaded = is_compiled and is_compiler_loaded()
        reset_compiler()  # in reused ranks an earlier point may have compiled
        keep_progress_bars_local()
        self._cache = DiskCache() if config.compiler in INDUCTOR else None
        if self._cache and config.cache == WARM:
            self._cache.fill(config, rank.device)
        torch.manual_seed(rank.seed)
        self._network = build(config, rank.device)
        dtype = getattr(torch, config.dtype)
        shapes = [shape(config, rows) for rows in config.batch_sizes]
        self._inputs = [torch.randn(size, dtype=dtype, device=rank.device) for size in shapes]
        self._calls_per_size = config.measure.max_iterations // len(shapes)
        self._input = self._inputs[0]
        self._step: Function | None = None
        self._seen: list[Compilations] = []

    def choose_input(self) -> None:
        index = min(len(self._seen) // self._calls_per_size, len(self._inputs) - 1)
        self._input = self._inputs[index]

    def step(self) -> Tensor:
        if self._step is None:
            self._step = prepare_step(self._network, self._config)
        return self._step(self._input)

    def observe(self, _: Mapping[str, float]) -> None:
        self._seen.append(compilations())

    def verify(self, call: Call) -> None:
        reference = copy.deepcopy(self._network).double()
        expected_of = step_of(reference, self._config.backward, identity)
        for rows in self._inputs:
            rows.normal_()
            what = f"of {list(rows.shape)} inputs"
            output = call(partial(setattr, self, "_input", rows))
            expected = expected_of(rows.double())
            self._require_close(output, expected, f"result {what}")
            pairs = zip(self._network.named_parameters(), reference.parameters(), strict=True)
            for (name, weight), twin in pairs:
                if twin.grad is not None:
                    self._require_close(weight.grad, twin.grad, f"gradient of {name} {what}")

    def _require_close(self, output: Tensor | None, expected: Tensor, what: str) -> None:
        if output is None or output.shape != expected.shape:
            given = "none" if output is None else str(list(output.shape))
            raise InvalidResult(f"{what}: {given}, expected {list(expected.shape)}")
        wait_for_device(output)
        scale = expected.abs().max().clamp_min(torch.finfo(torch.float64).tiny)
        error = float(((output.double() - expected).abs().max() / scale).nan_to_num(torch.inf))
        limit = TOLERANCE[self._config.dtype]
        if error > limit:
            raise InvalidResult(
                f"{what}: relative error {error:.3g}, allowed is {limit:g} (against eager float64)"
            )

    def details(self) -> Details:
        """Return what was compiled. All ranks call this together, after the last check."""
        if self._cache:
            self._cache.remove()
        shared = {CALLS_PER_SIZE: self._calls_per_size}
        if isinstance(self._step, CudaGraphs):
            number = len(self._step)
            return shared | {GRAPHS: number, RECOMPILATIONS: number - 1}
        if self._config.compiler == EAGER or not self._seen:
            return shared
        first, last = self._seen[0], self._seen[-1]
        seconds = all_gather_json([first.seconds, last.seconds - first.seconds])
        first_s, later_s = (max(column) for column in zip(*seconds, strict=True))
        counts = (
            GRAPHS, GRAPH_BREAKS, RECOMPILATIONS,
            CACHE_HITS, CACHE_MISSES,
        )  # fmt: skip
        return {
            **shared,
            COMPILE_S: round(first_s, 6),
            RECOMPILE_S: round(later_s, 6),
            **dict(zip(counts, astuple(last)[1:], strict=True)),
            COMPILED_AT: ", ".join(map(str, self._compiling_calls())),
        }

    def _compiling_calls(self) -> list[int]:
        before = [0.0, *(counted.seconds for counted in self._seen)]
        pairs = zip(self._seen, before, strict=False)
        return [call for call, (now, was) in enumerate(pairs, 1) if now.seconds > was]
