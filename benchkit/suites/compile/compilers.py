"""What makes a step fast: torch.compile, a CUDA graph, or nothing; and what each needs here."""

import importlib.util
import os
import shutil
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchkit.suites.compile import names
from benchkit.suites.compile.config import CompileConfig, graphs_missing
from benchkit.suites.compile.workloads import Function, step_of

WARM_UPS = 3
"""Calls on another stream before a capture, in which libraries make their workspaces."""


def missing(config: CompileConfig, device: torch.device) -> str:
    """Returns what this machine lacks for the compiler; "" if nothing.

    It loads no compiler, since loading one is a part of the first call.
    """
    if reason := graphs_missing(config.compiler, device.type):
        return reason
    if config.compiler not in names.INDUCTOR:
        return ""
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        return f"compiler={config.compiler}: needs the package triton; install it beside torch"
    found = os.environ.get("CXX", "g++")
    if shutil.which(found) is None:
        return (
            f"compiler={config.compiler}: no C++ compiler {found} here; install one (g++), or name "
            "it in the variable CXX"
        )
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        return (
            f"compiler={config.compiler}: no {header} here; install Python's headers (python3-dev)"
        )
    return ""


def prepared(network: nn.Module, config: CompileConfig, cuda: Any = torch.cuda) -> Function:
    """Returns the step of a network as the compiler runs it; most compile at the first call.

    The first use of torch.compile loads the compiler. So this is a part of the first call.

    Args:
        network: with its weights.
        config: of the point.
        cuda: torch.cuda, or what replaces it in a test.
    """
    own_step = partial(step_of, network, config.backward)
    if config.compiler == names.EAGER:
        return own_step(unchanged)
    if config.compiler == names.CUDA_GRAPH:
        return CudaGraphs(own_step(unchanged), list(network.parameters()), cuda)
    dynamic = None if config.dynamic == "auto" else str(config.dynamic).lower() == "true"
    options: dict[str, Any] = {"mode": config.compiler}
    if config.compiler == names.AOT_EAGER:
        options = {"backend": names.AOT_EAGER}
    return own_step(partial(torch.compile, dynamic=dynamic, **options))


def unchanged(function: Function) -> Function:
    return function


class CudaGraphs:
    """A step as CUDA graphs, one for each shape of its input, which keeps its place in memory.

    Args:
        step: computes a result and, maybe, gradients.
        weights: whose gradients the step computes.
        cuda: torch.cuda, or what replaces it in a test.
    """

    def __init__(self, step: Function, weights: list[Tensor], cuda: Any) -> None:
        self._step = step
        self._weights = weights
        self._cuda = cuda
        self._captured: dict[
            tuple[int, ...], tuple[Callable[[], None], Tensor, list[Tensor | None]]
        ] = {}

    def __len__(self) -> int:
        """Returns the number of graphs."""
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
        here, side = self._cuda.current_stream(), self._cuda.Stream()
        side.wait_stream(here)
        with self._cuda.stream(side):
            for _ in range(WARM_UPS):
                self._step(rows)
        here.wait_stream(side)
        graph = self._cuda.CUDAGraph()
        # Other threads, such as NCCL's watchdog, may ask for events meanwhile.
        with self._cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            result = self._step(rows)
        return graph.replay, result, [weight.grad for weight in self._weights]
