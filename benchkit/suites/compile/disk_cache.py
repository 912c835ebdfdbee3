"""Inductor's cache on disk: a folder of this rank alone, empty or filled by another process."""

import os
import tempfile

import torch

from benchkit.api.fresh_process import run_in_fresh_process
from benchkit.suites.compile.compilers import prepared
from benchkit.suites.compile.config import CompileConfig
from benchkit.suites.compile.workloads import build, shape

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Tells inductor its folder, and Triton with it."""


class DiskCache:
    """An empty folder, which inductor uses from now on in this process and its children."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="benchkit_inductor_", ignore_cleanup_errors=True
        )
        os.environ[VARIABLE] = self._folder.name

    def fill(self, config: CompileConfig, device: torch.device) -> None:
        """Compiles in a fresh process what this one is to compile.

        Compiling it here would fill more than the disk: the compiler would be loaded, and the
        first call would no longer be that of a fresh process.
        """
        settings = torch.get_num_threads(), torch.get_float32_matmul_precision()
        run_in_fresh_process(run_once, config, str(device), *settings)

    def remove(self) -> None:
        """Deletes the folder; a rank ends without the end of its interpreter, which would do so."""
        self._folder.cleanup()


def run_once(config: CompileConfig, device: str, threads: int, precision: str) -> None:
    """Makes one step with each size of the input, in their order.

    The settings of torch are those of the rank: the keys of the cache contain them.
    """
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    step = prepared(build(config, torch.device(device)), config)
    for rows in config.batch_sizes:
        step(torch.zeros(shape(config, rows), dtype=getattr(torch, config.dtype), device=device))
