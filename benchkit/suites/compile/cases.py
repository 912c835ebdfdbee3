"""The one case of a job: a step from its first call on, as one compiler runs it.

Each compiler has a point of its own: a fresh process, in which nothing is loaded or compiled.
"""

import copy
from collections.abc import Mapping
from dataclasses import astuple
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchkit.api.case import Call, Case, Rank
from benchkit.api.compiler_internals import (
    Compilations,
    compilations,
    is_compiler_loaded,
    keep_progress_bars_local,
    reset_compiler,
)
from benchkit.api.device_wait import wait_for_device
from benchkit.api.gather import first_reason, gather_json
from benchkit.errors import InvalidResult
from benchkit.suites.compile import names
from benchkit.suites.compile.compilers import CudaGraphs, missing, prepared, unchanged
from benchkit.suites.compile.config import CompileConfig
from benchkit.suites.compile.disk_cache import DiskCache
from benchkit.suites.compile.workloads import (
    Function,
    build,
    needed_bytes,
    shape,
    step_of,
)

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.2}
"""Error allowed of a result or of a gradient, relative to the largest element, by dtype."""
LOADED_BEFORE = "the compiler was loaded before the first call, which is shorter for it"


def cases_of(config: CompileConfig, rank: Rank) -> list[Case]:
    """Returns the case, which says why if this machine cannot run it."""
    labels = {names.BATCH_SIZES: ",".join(map(str, config.batch_sizes))}
    if reason := first_reason(missing(config, rank.device)):
        return [Case(labels=labels, unavailable=reason)]
    if shortage := rank.memory_shortage(needed_bytes(config)):
        return [Case(labels=labels, skip=shortage)]
    run = Run(config, rank)
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


class Run:
    """The callables of the case, and what they share.

    Attributes:
        is_compiler_loaded: whether this process had loaded the compiler before it was to compile.
    """

    def __init__(self, config: CompileConfig, rank: Rank) -> None:
        self._config = config
        is_compiled = config.compiler not in (names.EAGER, names.CUDA_GRAPH)
        self.is_compiler_loaded = is_compiled and is_compiler_loaded()
        reset_compiler()  # in ranks that stay, an earlier point may have compiled
        keep_progress_bars_local()
        self._cache = DiskCache() if config.compiler in names.INDUCTOR else None
        if self._cache and config.cache == names.WARM:
            self._cache.fill(config, rank.device)
        torch.manual_seed(rank.seed)
        self._network = build(config, rank.device)
        dtype = getattr(torch, config.dtype)
        shapes = [shape(config, rows) for rows in config.batch_sizes]
        self._inputs = [torch.randn(each, dtype=dtype, device=rank.device) for each in shapes]
        self._calls_per_size = config.measure.max_iterations // len(shapes)
        self._input = self._inputs[0]
        self._step: Function | None = None
        self._seen: list[Compilations] = []

    def choose_input(self) -> None:
        """Sets the input of the next call; sizes take turns one after another."""
        index = min(len(self._seen) // self._calls_per_size, len(self._inputs) - 1)
        self._input = self._inputs[index]

    def step(self) -> Tensor:
        """Makes one step; the first one loads the compiler and compiles."""
        if self._step is None:
            self._step = prepared(self._network, self._config)
        return self._step(self._input)

    def observe(self, _: Mapping[str, float]) -> None:
        """Reads after a call what torch has compiled so far."""
        self._seen.append(compilations())

    def verify(self, call: Call) -> None:
        """Compares results and gradients for each size with eager code in float64.

        Raises:
            InvalidResult: one of them differs.
        """
        reference = copy.deepcopy(self._network).double()
        expected_of = step_of(reference, self._config.backward, unchanged)
        for rows in self._inputs:
            rows.normal_()
            what = f"of {list(rows.shape)} inputs"
            found = call(partial(setattr, self, "_input", rows))
            expected = expected_of(rows.double())
            self._require_close(found, expected, f"result {what}")
            pairs = zip(self._network.named_parameters(), reference.parameters(), strict=True)
            for (name, weight), twin in pairs:
                if twin.grad is not None:
                    self._require_close(weight.grad, twin.grad, f"gradient of {name} {what}")

    def _require_close(self, found: Tensor | None, expected: Tensor, what: str) -> None:
        if found is None or found.shape != expected.shape:
            given = "none" if found is None else str(list(found.shape))
            raise InvalidResult(f"{what}: {given}, expected {list(expected.shape)}")
        wait_for_device(found)
        scale = expected.abs().max().clamp_min(torch.finfo(torch.float64).tiny)
        error = float(((found.double() - expected).abs().max() / scale).nan_to_num(torch.inf))
        limit = TOLERANCE[self._config.dtype]
        if error > limit:
            raise InvalidResult(
                f"{what}: relative error {error:.3g}, allowed is {limit:g} (against eager float64)"
            )

    def details(self) -> dict[str, Any]:
        """Returns what was compiled; all ranks call this together, after the last check."""
        if self._cache:
            self._cache.remove()
        shared = {names.CALLS_PER_SIZE: self._calls_per_size}
        if isinstance(self._step, CudaGraphs):
            number = len(self._step)
            return shared | {names.GRAPHS: number, names.RECOMPILATIONS: number - 1}
        if self._config.compiler == names.EAGER or not self._seen:
            return shared
        first, last = self._seen[0], self._seen[-1]
        seconds = gather_json([first.seconds, last.seconds - first.seconds])
        first_s, later_s = (max(column) for column in zip(*seconds, strict=True))
        counts = (
            names.GRAPHS, names.GRAPH_BREAKS, names.RECOMPILATIONS,
            names.CACHE_HITS, names.CACHE_MISSES,
        )  # fmt: skip
        return {
            **shared,
            names.COMPILE_S: round(first_s, 6),
            names.RECOMPILE_S: round(later_s, 6),
            **dict(zip(counts, astuple(last)[1:], strict=True)),
            names.COMPILED_AT: ", ".join(map(str, self._compiling_calls())),
        }

    def _compiling_calls(self) -> list[int]:
        before = [0.0, *(each.seconds for each in self._seen)]
        pairs = zip(self._seen, before, strict=False)
        return [call for call, (now, was) in enumerate(pairs, 1) if now.seconds > was]
