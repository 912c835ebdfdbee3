"""What torch keeps for a whole process, as a rank sets it before anything is built."""

import os
from collections.abc import Mapping

import torch

TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"
"""The variable that NVIDIA's libraries obey over any setting of torch."""


def set_up_torch(threads: int, stated: Mapping[str, str]) -> None:
    """Sets the number of CPU threads, and full precision for products of float32.

    A suite that measures TF32 asks for it later. The default is not relied upon:
    TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1, which NVIDIA's images set, changes it to TF32. An inherited
    TF32_OVERRIDE is dropped before a library of NVIDIA's reads it.

    Args:
        threads: CPU threads of this process.
        stated: the variables that the configuration sets, which stay.
    """
    if TF32_OVERRIDE not in stated:
        os.environ.pop(TF32_OVERRIDE, None)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
