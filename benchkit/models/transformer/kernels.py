"""Which attention kernels and compilers this machine has, and how a model is made to use them."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
COMPILERS = ("g++", "clang++")


@contextmanager
def chosen(attention: str, autocast: bool, device: torch.device) -> Iterator[None]:
    """Within, attention runs by the kernel of that name, and products in bfloat16 where asked."""
    with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
        if attention in BACKENDS:
            with sdpa_kernel([BACKENDS[attention]]):
                yield
        else:
            yield


def missing(attention: str, dtype: torch.dtype, head_dim: int, compiled: bool, device: torch.device) -> str:
    """What is not here of what is asked for, in words; "" where all is."""
    if attention in BACKENDS:
        example = torch.zeros(1, 1, 16, head_dim, dtype=dtype, device=device)
        try:
            with chosen(attention, False, device):
                F.scaled_dot_product_attention(example, example, example, is_causal=True)
        except RuntimeError:
            return f"no {attention} attention for {str(dtype).removeprefix('torch.')} on {device.type}"
    if not compiled:
        return ""
    if device.type == "cuda":
        return "" if importlib.util.find_spec("triton") else "torch.compile needs triton on GPUs"
    found = os.environ.get("CXX") or any(map(shutil.which, COMPILERS))
    return "" if found else f"torch.compile needs a C++ compiler: CXX, {' or '.join(COMPILERS)}"
