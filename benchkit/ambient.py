"""Variables of this process's environment that change what libraries do, for records."""

import os
from collections.abc import Mapping

from benchkit.record.naming import printable

PREFIXES = (
    "NCCL_", "RCCL_", "UCX_", "UCC_", "GLOO_",
    "TORCH_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32_",
    "HSA_", "ROCR_", "HIP_", "MIOPEN_",
    "OMP_", "GOMP_", "KMP_", "MKL_",
)  # fmt: skip
SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
"""A variable with one of these words in its name is left out."""
MOST_LETTERS = 200
"""Of a value; the rest is cut."""


def variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the variables with one of PREFIXES, by name in order."""
    return {
        name: printable(value)[:MOST_LETTERS]
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES) and not any(word in name.upper() for word in SECRETS)
    }
