"""Finds which attention kernels and compilers this machine has, and selects the kernel."""

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
"""The compute capability from which GPUs have TF32: Ampere."""


def chosen(attention: str) -> AbstractContextManager[object]:
    """Returns a context in which attention runs by the kernel of this name."""
    return sdpa_kernel([BACKENDS[attention]]) if attention in BACKENDS else nullcontext()


def missing(attention: str, dtype: str, head_dim: int, compiled: bool, device: torch.device) -> str:
    """Describes what the machine lacks for a configuration; "" where it has everything.

    Args:
        attention: the kernel, as the suite names it.
        dtype: the dtype, as the suite names it.
        head_dim: width of a head.
        compiled: whether torch.compile is used.
        device: where the model runs.
    """
    on_gpu = device.type == "cuda"
    if dtype == "tf32" and on_gpu and torch.cuda.get_device_capability(device) < TF32_FROM:
        return f"no TF32 on {torch.cuda.get_device_name(device)}"
    if attention in BACKENDS and not can_attend(attention, dtype, head_dim, device):
        return f"no {attention} attention for {dtype} on {device.type}"
    if not compiled:
        return ""
    if on_gpu and not importlib.util.find_spec("triton"):
        return "torch.compile needs triton on GPUs"
    variable = "CC" if on_gpu else "CXX"
    names = COMPILERS[device.type]
    if os.environ.get(variable) or any(map(shutil.which, names)):
        return ""
    return f"torch.compile needs a compiler: {variable}, {' or '.join(names)}"


def can_attend(attention: str, dtype: str, head_dim: int, device: torch.device) -> bool:
    """Whether a kernel supports these heads forward and backward; some support fewer backward."""
    real = torch.bfloat16 if dtype in ("bfloat16", "autocast") else torch.float32
    example = torch.zeros(1, 1, 16, head_dim, dtype=real, device=device, requires_grad=True)
    try:
        with chosen(attention):
            out = F.scaled_dot_product_attention(example, example, example, is_causal=True)
            out.sum().backward()
    except RuntimeError as error:
        if is_out_of_memory(type(error).__name__, str(error)):
            raise
        return False
    return True
