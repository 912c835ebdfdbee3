"""The network: a Llama with RMSNorm, rotary positions, causal attention, SwiGLU and no biases.

A norm precedes each part; the head is untied from the embedding. Sources: Llama (2302.13971),
RoFormer (2104.09864) for positions, GLU variants (2002.05202) for SwiGLU.

Shapes: tokens [B, s] in, logits [B, s, V] out; H heads of D = d_model / H.
"""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from benchkit.api.keys import ModelConfig
from benchkit.errors import is_out_of_memory

NORM_EPS = 1e-5
ROTARY_BASE = 10000.0
INIT_STD = 0.02


class Attention(nn.Module):
    """Causal self-attention of [B, s, d], over some of the heads if projections are sharded."""

    def __init__(self, d_model: int, num_heads: int, naive: bool) -> None:
        super().__init__()
        self.head_dim = d_model // num_heads
        self.naive = naive
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        query = self.heads(self.query(x))
        key = self.heads(self.key(x))
        value = self.heads(self.value(x))
        cos, sin = cos.to(query.dtype), sin.to(query.dtype)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        if self.naive:
            attended = attend_naively(query, key, value)
        else:
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(attended.transpose(1, 2).flatten(2))

    def heads(self, x: Tensor) -> Tensor:
        """Split the heads: [B, s, H D] -> [B, H, s, D]."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate component i of [B, H, s, D] with i + D / 2, by cos and sin [s, D / 2]."""
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def attend_naively(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, float("-inf")).softmax(-1) @ value


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class TransformerLayer(nn.Module):
    def __init__(self, model: ModelConfig, naive: bool) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(model.d_model, eps=NORM_EPS)
        self.attention = Attention(model.d_model, model.num_heads, naive)
        self.feed_forward_norm = nn.RMSNorm(model.d_model, eps=NORM_EPS)
        self.feed_forward = FeedForward(model.d_model, model.d_ff)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Network(nn.Module):
    """The whole model; with `checkpointing` only each layer's input is kept for backward."""

    def __init__(
        self, model: ModelConfig, naive: bool = False, checkpointing: bool = False
    ) -> None:
        super().__init__()
        self.head_dim = model.d_model // model.num_heads
        self.checkpointing = checkpointing
        self.embedding = nn.Embedding(model.vocab_size, model.d_model)
        self.layers = nn.ModuleList(TransformerLayer(model, naive) for _ in range(model.num_layers))
        self.norm = nn.RMSNorm(model.d_model, eps=NORM_EPS)
        self.head = nn.Linear(model.d_model, model.vocab_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        cos, sin = rotations(tokens.shape[1], self.head_dim, tokens.device)
        for layer in self.layers:
            if self.checkpointing and torch.is_grad_enabled():
                # There is no dropout, so no random state has to be kept.
                x = checkpoint(layer, x, cos, sin, use_reentrant=False, preserve_rng_state=False)
            else:
                x = layer(x, cos, sin)
        return self.head(self.norm(x))

    def parts(self) -> Iterator[nn.Module]:
        yield from (self.embedding, *self.layers, self.norm, self.head)


def rotations(length: int, head_dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [s, D / 2] of the angles of positions 0 to s - 1."""
    frequencies = ROTARY_BASE ** (-torch.arange(0, head_dim, 2, device=device) / head_dim)
    angles = torch.outer(torch.arange(length, device=device), frequencies)
    return angles.cos(), angles.sin()


def build(
    network: Callable[[], Network],
    dtype: torch.dtype,
    device: torch.device,
    seed: int,
    shard: Callable[[nn.Module], object] = lambda part: None,
) -> Network:
    """Build a network with random weights, part by part.

    `network` makes it without memory for its weights. `shard` is called with each part as soon as
    it has weights, so that no rank ever has the whole network if ranks share the weights.
    """
    generator = torch.Generator(device).manual_seed(seed)
    with torch.device("meta"):
        built: Network = network().to(dtype)
    for part in built.parts():
        part.to_empty(device=device)
        for name, weight in part.named_parameters():
            with torch.no_grad():
                if "norm" in name or isinstance(part, nn.RMSNorm):
                    weight.fill_(1.0)
                else:
                    weight.normal_(0.0, INIT_STD, generator=generator)
        shard(part)
    return built


def plan() -> dict[str, ParallelStyle]:
    """Return the tensor-parallel styles of the modules of a layer (Megatron, 1909.08053)."""
    # The input of each half is prepared once for all projections that it enters, so that backward
    # adds up their gradients before it sends them.
    whole = Replicate()
    attention_layouts = (whole, None, None)
    styles: dict[str, ParallelStyle] = {
        "attention": PrepareModuleInput(
            input_layouts=attention_layouts, desired_input_layouts=attention_layouts
        ),
        "feed_forward": PrepareModuleInput(input_layouts=whole, desired_input_layouts=whole),
    }
    for name in ("attention.query", "attention.key", "attention.value"):
        styles[name] = ColwiseParallel()
    for name in ("feed_forward.gate", "feed_forward.up"):
        styles[name] = ColwiseParallel()
    for name in ("attention.out", "feed_forward.down"):
        styles[name] = RowwiseParallel()
    return styles


def sharding(kind: str, mesh: DeviceMesh | None) -> Callable[[nn.Module], object]:
    def by_fsdp(part: nn.Module) -> object:
        if isinstance(part, TransformerLayer | nn.Embedding):
            return fully_shard(part, mesh=mesh)
        return None

    def by_tp(part: nn.Module) -> object:
        if isinstance(part, TransformerLayer):
            return parallelize_module(part, mesh, plan())
        if isinstance(part, nn.Embedding):
            return parallelize_module(part, mesh, RowwiseParallel(input_layouts=Replicate()))
        if isinstance(part, nn.Linear):
            return parallelize_module(part, mesh, ColwiseParallel(output_layouts=Replicate()))
        return None

    return {"fsdp": by_fsdp, "tp": by_tp}.get(kind, lambda part: None)


def wrap_network(
    kind: str, network: Network, mesh: DeviceMesh | None, bucket_mib: float
) -> nn.Module:
    if kind == "ddp":
        return DistributedDataParallel(
            network, bucket_cap_mb=bucket_mib, gradient_as_bucket_view=True, broadcast_buffers=False
        )
    return fully_shard(network, mesh=mesh) if kind == "fsdp" else network


BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
COMPILERS = {"cpu": ("g++", "clang++"), "cuda": ("gcc", "clang", "cc")}
TF32_FROM, TF32_ON_AMD = (8, 0), "HIPBLASLT_ALLOW_TF32"


def select_kernel(attention: str) -> AbstractContextManager[object]:
    return sdpa_kernel([BACKENDS[attention]]) if attention in BACKENDS else nullcontext()


def attention_missing(
    attention: str, dtype: str, head_dim: int, compiled: bool, device: torch.device
) -> str:
    on_gpu = device.type == "cuda"
    if dtype == "tf32" and on_gpu:
        if torch.version.hip and os.environ.get(TF32_ON_AMD) != "1":
            return f"TF32 on GPUs of AMD needs {TF32_ON_AMD}=1; hipBLASLt uses float32 without it"
        if torch.cuda.get_device_capability(device) < TF32_FROM:
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
    """Return whether a kernel has these heads forward and backward; some only forward."""
    real = torch.bfloat16 if dtype in ("bfloat16", "autocast") else torch.float32
    example = torch.zeros(1, 1, 16, head_dim, dtype=real, device=device, requires_grad=True)
    try:
        with select_kernel(attention):
            out = F.scaled_dot_product_attention(example, example, example, is_causal=True)
            out.sum().backward()
    except RuntimeError as error:
        if is_out_of_memory(type(error).__name__, str(error)):
            raise
        return False
    return True
