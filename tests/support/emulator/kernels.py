"""What CUDA kernels would compute, on the host memory that the emulated CUDA runtime hands out.

A dispatch mode sees each operation on "cuda" tensors, runs it by torch's CPU kernels on tensors that share their
memory, and tells the runtime how long a GPU would take. Operations on other tensors pass.
"""

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

RUNTIME = ctypes.CDLL("libcudart.so.13")
RUNTIME.emulatedLaunch.argtypes = [ctypes.c_void_p, ctypes.c_double]
RUNTIME.emulatedCopied.argtypes = [ctypes.c_size_t, ctypes.c_int]
TO_DEVICE, TO_HOST = 1, 2
"""Kinds of copies, by CUDA's numbers."""
LAUNCH_MS, BYTES_PER_MS, FLOPS_PER_MS = 0.004, 2e9, 5e11
PASSED_ON = {
    "c10d", "symm_mem", "profiler", "prim", "c10d_functional", "_c10d_functional", "higher_order",
}  # fmt: skip
"""Namespaces of operations that have no kernel of their own."""
WITHOUT_KERNEL = {
    "empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "set_", "resize_", "resize_as_",
    "record_stream", "detach", "view", "_unsafe_view", "_reshape_alias", "lift_fresh", "is_pinned", "_pin_memory",
}  # fmt: skip
COPIES = {"_to_copy", "copy_"}
WAITING = {"_local_scalar_dense", "nonzero", "equal", "masked_select"}
"""Operations whose result the host waits for."""
MATMULS = {"mm", "bmm", "_scaled_mm"}

replays: list[Callable[[], None]] = []
"""What graphs do again, by the index that the runtime knows."""


@ctypes.CFUNCTYPE(None, ctypes.c_int)
def replay(index: int) -> None:
    with torch._C._DisableTorchDispatch():
        replays[index]()


RUNTIME.emulatedOnReplay(replay)


def on_host(tensor: Tensor) -> Tensor:
    """A CPU tensor over the memory of an emulated one."""
    storage = tensor.untyped_storage()
    size, stride = tensor.size(), tensor.stride()
    if not storage.nbytes():
        return torch.empty_strided(size, stride, dtype=tensor.dtype)
    memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    base = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    alias = torch.empty(0, dtype=tensor.dtype).set_(base, tensor.storage_offset(), size, stride)
    if tensor.is_conj():
        torch._C._set_conj(alias, True)
    if tensor.is_neg():
        torch._C._set_neg(alias, True)
    return alias


def milliseconds(name: str, tensors: list[Tensor]) -> float:
    num_bytes = sum(map(nbytes, tensors))
    factors = [each for each in tensors if each.dim() > 1]
    flops = 0
    if name in MATMULS and len(factors) > 1:
        flops = 2 * factors[-1].numel() * factors[-2].shape[-2]
    return LAUNCH_MS + num_bytes / BYTES_PER_MS + flops / FLOPS_PER_MS


# ---- attention, whose CPU kernels have other signatures ----


def scores_of(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, bias: Tensor | None
) -> tuple[Any, ...]:
    q, k, v = q.double(), k.double(), v.double()
    if k.shape[1] != q.shape[1]:
        k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
    scale = scale or q.shape[-1] ** -0.5
    scores = q @ k.transpose(-1, -2) * scale
    if bias is not None:
        scores = scores + bias.double()
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return q, k, v, scores, scale


def attend(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    _, _, values, scores, _ = scores_of(q, k, v, causal, scale, bias)
    logsumexp = scores.logsumexp(-1)
    return (torch.exp(scores - logsumexp[..., None]) @ values).to(q.dtype), logsumexp.float()


def attend_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, causal: bool, scale: float | None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    dtype = q.dtype
    q, k, v, scores, scale = scores_of(q, k, v, causal, scale, bias)
    grad, out = grad.double(), out.double()
    shares = torch.exp(scores - logsumexp.double().reshape(scores.shape[:-1])[..., None])
    of_scores = shares * (grad @ v.transpose(-1, -2) - (grad * out).sum(-1, keepdim=True)) * scale
    grads = of_scores @ k, of_scores.transpose(-1, -2) @ q, shares.transpose(-1, -2) @ grad
    return tuple(each.to(dtype) for each in grads)


def seeds() -> tuple[Tensor, Tensor]:
    return torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)


def attention(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The result of a kernel of scaled_dot_product_attention, with what each returns beside it."""
    scale = named.get("scale")

    def at(position: int, key: str, otherwise: Any) -> Any:
        return given[position] if len(given) > position else named.get(key, otherwise)

    kind = name.removeprefix("_scaled_dot_product_").removesuffix("_backward")
    if name.endswith("_backward"):
        if kind == "flash_attention":
            return attend_backward(*given[:6], given[11], scale)
        if kind == "cudnn_attention":
            return attend_backward(*given[:6], given[14], scale, given[8])
        grad, q, k, v, bias, out, logsumexp = given[:7]
        return (*attend_backward(grad, q, k, v, out, logsumexp, at(11, "is_causal", False), scale, bias), None)
    if kind == "flash_attention":
        out, logsumexp = attend(*given[:3], at(4, "is_causal", False), scale)
        return out, logsumexp, None, None, given[0].shape[2], given[1].shape[2], *seeds(), torch.empty(0)
    out, logsumexp = attend(*given[:3], at(6, "is_causal", False), scale, at(3, "attn_bias", None))
    if kind == "cudnn_attention":
        rest = None, None, given[0].shape[2], given[1].shape[2], *seeds(), torch.empty(0)
        return out, logsumexp[..., None], *rest
    return out, logsumexp, *seeds()


def rms_norm_backward(given: tuple[Any, ...]) -> tuple[Tensor, Tensor | None]:
    grad, x, shape, inverse_rms, weight, _ = given
    scaled, normed = grad * weight if weight is not None else grad, x * inverse_rms
    leading, own = tuple(range(x.dim() - len(shape))), tuple(range(x.dim() - len(shape), x.dim()))
    of_x = inverse_rms * (scaled - normed * (scaled * normed).mean(own, keepdim=True))
    return of_x, (grad * normed).sum(leading) if weight is not None else None


def shard_dim_alltoall(tensor: Tensor, gathered: int, sharded: int, group: Any) -> Tensor:
    """Move the sharding of a DTensor from one dimension to another."""
    if isinstance(group, str):
        group = torch.distributed.distributed_c10d._resolve_process_group(group)
    with Kernels():
        sent = [part.contiguous() for part in tensor.chunk(group.size(), sharded)]
        received = [torch.empty_like(part) for part in sent]
        torch.distributed.all_to_all(received, sent, group=group)
        return torch.cat(received, gathered)


# ---- the mode ----


def is_plain(tensor: Tensor) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def is_traced(tensors: list[Tensor]) -> bool:
    """Whether a compiler runs the operation on tensors without data."""
    traced = any(type(each).__name__ in ("FakeTensor", "FunctionalTensor") for each in tensors)
    return traced or torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def kernel_of(func: Any, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Callable[[], Any]:
    if name == "_fused_rms_norm_backward":
        return functools.partial(rms_norm_backward, given)
    if name.startswith("_scaled_dot_product_") and "for_cpu" not in name:
        return functools.partial(attention, name, given, named)
    return functools.partial(func, *given, **named)


class Kernels(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[1]
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        if func.namespace in PASSED_ON or is_traced(tensors):
            return func(*args, **kwargs)
        if not all(map(is_plain, tensors)):
            return NotImplemented
        device = kwargs.get("device")
        device = torch.device(device) if device is not None else None
        has_data_there = any(each.is_cuda for each in tensors)
        if not has_data_there and (device is None or device.type != "cuda"):
            return func(*args, **kwargs)
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:  # inference mode hands such operations over whole
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if name in WITHOUT_KERNEL or func.is_view:
            return func(*args, **kwargs)
        if name == "_fused_sdp_choice":
            return 0
        if name == "shard_dim_alltoall":
            return shard_dim_alltoall(*args)
        target = device or torch.device("cuda")
        if has_data_there and brings_to_host(name, target, args):
            torch.cuda.current_stream().synchronize()
        if name in COPIES and tensors[-1].is_cuda != (target_of(name, target, args) == "cuda"):
            RUNTIME.emulatedCopied(nbytes(tensors[-1]), TO_HOST if tensors[-1].is_cuda else TO_DEVICE)
        return launch(func, name, args, kwargs, target, tensors)


def nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def target_of(name: str, target: torch.device, given: tuple[Any, ...]) -> str:
    """The kind of device to which a copy goes."""
    return given[0].device.type if name == "copy_" else target.type


def brings_to_host(name: str, target: torch.device, given: tuple[Any, ...]) -> bool:
    return name in WAITING or (name in COPIES and target_of(name, target, given) == "cpu")


def launch(
    func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], target: torch.device, tensors: list[Tensor]
) -> Any:
    """Compute on the host's view of the memory; return tensors of the target, which graphs can compute again."""
    named = dict(kwargs)
    if named.get("device") is not None:
        named["device"] = torch.device("cpu")
    if named.get("pin_memory"):
        named["pin_memory"] = False
    hosted = tree_map_only(Tensor, lambda each: on_host(each) if each.is_cuda else each, (args, named))
    call = kernel_of(func, name, *hosted)
    computed = call()
    RUNTIME.emulatedLaunch(torch.cuda.current_stream().cuda_stream, milliseconds(name, tensors))
    given = {id(host): own for host, own in zip(tree_leaves(hosted), tree_leaves((args, kwargs)), strict=True)}
    made: list[Tensor] = []

    def on_target(host: Tensor) -> Tensor:
        if id(host) in given:
            return given[id(host)]
        if target.type == "cpu":
            return host
        own = torch.empty_strided(host.size(), host.stride(), dtype=host.dtype, device=target)
        made.append(on_host(own))
        made[-1].copy_(host)
        return own

    result = tree_map_only(Tensor, on_target, computed)
    if RUNTIME.emulatedCapturing():

        def again() -> None:
            fresh = [each for each in tree_leaves(call()) if isinstance(each, Tensor) and id(each) not in given]
            for place, value in zip(made, fresh, strict=True):
                place.copy_(value)

        replays.append(again)
        RUNTIME.emulatedRecord(len(replays) - 1)
    return result


entered = threading.local()


def enter() -> None:
    """Compute for the emulated GPUs in this thread from now on."""
    if not getattr(entered, "already", False):
        entered.already = True
        Kernels().__enter__()


class OfAnyDevice(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, OnHost)


OnHost = torch.Generator


class Generator(metaclass=OfAnyDevice):
    """A generator of the host's numbers, also where one for a GPU is asked for."""

    def __new__(cls, device: str | torch.device = "cpu") -> torch.Generator:
        return OnHost("cpu")


torch.Generator = Generator
