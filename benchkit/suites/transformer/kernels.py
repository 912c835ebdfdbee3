"""Which attention kernels and compilers this machine has, and how a model is made to use them."""

import importlib.util
import os
import shutil
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchkit.errors import is_out_of_memory

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
COMPILERS = {"cpu": ("g++", "clang++"), "cuda": ("gcc", "clang", "cc")}
TF32_FROM = (8, 0)
"""Compute capability: Ampere."""


def chosen(attention: str) -> AbstractContextManager[object]:
    """Within, attention runs by the kernel of that name."""
    return sdpa_kernel([BACKENDS[attention]]) if attention in BACKENDS else nullcontext()


def missing(attention: str, dtype: str, head_dim: int, compiled: bool, device: torch.device) -> str:
    """What is not here of what is asked for, in words; "" where all is. dtype: as the suite names it."""
    on_gpu = device.type == "cuda"
    if dtype == "tf32" and on_gpu and torch.cuda.get_device_capability(device) < TF32_FROM:
        return f"no TF32 on {torch.cuda.get_device_name(device)}"
    if attention in BACKENDS and not can_attend(attention, dtype, head_dim, device):
        return f"no {attention} attention for {dtype} on {device.type}"
    if not compiled:
        return ""
    if on_gpu and not importlib.util.find_spec("triton"):
        return "torch.compile needs triton on GPUs"
    variable, names = "CC" if on_gpu else "CXX", COMPILERS[device.type]
    found = os.environ.get(variable) or any(map(shutil.which, names))
    return "" if found else f"torch.compile needs a compiler: {variable}, {' or '.join(names)}"


def can_attend(attention: str, dtype: str, head_dim: int, device: torch.device) -> bool:
    """Whether a kernel takes such heads, forward and backward: some take fewer backward."""
    real = torch.bfloat16 if dtype in ("bfloat16", "autocast") else torch.float32
    example = torch.zeros(1, 1, 16, head_dim, dtype=real, device=device, requires_grad=True)
    try:
        with chosen(attention):
            F.scaled_dot_product_attention(example, example, example, is_causal=True).sum().backward()
    except RuntimeError as error:
        if is_out_of_memory(type(error).__name__, str(error)):
            raise
        return False
    return True
