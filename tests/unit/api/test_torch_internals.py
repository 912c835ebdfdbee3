"""What benchkit/api/torch_internals.py relies on inside of torch, which promises none of it."""

import inspect

import pytest
import torch
import torch.distributed as dist
from benchkit.api import torch_internals
from benchkit.api.products import float8_missing, matmul_of
from benchkit.api.sizes import FLOAT8

ADVICE = f"torch {torch.__version__} has changed: {{}}; adapt benchkit/api/torch_internals.py, then this test"
KERNELS = {
    "_scaled_dot_product_flash_attention_for_cpu": "query key value dropout_p is_causal",
    "_scaled_dot_product_flash_attention": "query key value dropout_p is_causal",
    "_scaled_dot_product_efficient_attention": "query key value attn_bias compute_log_sumexp dropout_p is_causal",
}
"""Attention kernels, those of GPUs among them, and their first arguments, which are given by place."""


def parts(length):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(1, 2, length, 8, generator=generator) for _ in range(3)]


@pytest.mark.usefixtures("group_of_one")
def test_default_store_is_shared():
    advice = ADVICE.format("the ranks no longer share default_store(), by which the suite collective checks a barrier")
    torch_internals.default_store().add("entered", 2)
    assert torch_internals.default_store().add("entered", 0) == 2, advice


def test_gpu_can_be_kept_busy(monkeypatch):
    advice = ADVICE.format("keep_gpu_busy() calls torch.cuda._sleep(cycles), which hides the latency of launches")
    assert list(inspect.signature(torch.cuda._sleep).parameters) == ["cycles"], advice
    asked = []
    monkeypatch.setattr("torch.cuda._sleep", asked.append)
    torch_internals.keep_gpu_busy(7)
    assert asked == [7]


@pytest.mark.parametrize("name", KERNELS)
def test_attention_kernels_take_positional_args(name):
    schema = getattr(torch.ops.aten, name).default._schema
    advice = ADVICE.format(f"fused_attention() calls {schema}")
    taken = KERNELS[name].split()
    assert [argument.name for argument in schema.arguments][: len(taken)] == taken, advice
    rest = schema.arguments[len(taken) :]
    assert all(argument.has_default_value() for argument in rest), advice
    assert [str(result.type) for result in schema.returns][:2] == ["Tensor", "Tensor"], advice


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_returns_output_and_lse(causal):
    advice = ADVICE.format("fused_attention() on a CPU must return [1, H, L, D] and [1, H, L]")
    query, key, value = parts(5)
    out, lse, *_ = torch_internals.fused_attention(query, key, value, causal)
    scores = query @ key.transpose(-1, -2) / 8**0.5
    if causal:
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    torch.testing.assert_close(out, scores.softmax(-1) @ value, msg=advice)
    torch.testing.assert_close(lse, scores.logsumexp(-1), msg=advice)


def test_lse_of_gpu_kernel_has_no_padding():
    """Of the kernel for float32 on GPUs, by its shapes alone."""
    query = torch.empty(1, 2, 500, 8, device="meta")
    padded = torch.ops.aten._scaled_dot_product_efficient_attention(query, query, query, None, True, 0.0, False)[1]
    assert padded.shape == (1, 2, 512), ADVICE.format("fused_attention() need not slice the log-sum-exp any more")
    out, lse, *_ = torch_internals.fused_attention(query, query, query, False)
    assert (out.shape, lse.shape) == ((1, 2, 500, 8), (1, 2, 500))


def test_trial_finds_what_fused_attention_refuses():
    cpu = torch.device("cpu")
    assert torch_internals.fused_attention_missing(cpu, torch.bfloat16, 8) == ""
    assert "int32" in torch_internals.fused_attention_missing(cpu, torch.int32, 8)


def test_lack_of_memory_in_trial_is_no_refusal():
    def lack():
        raise torch.OutOfMemoryError("a GPU")

    with pytest.raises(torch.OutOfMemoryError):
        torch_internals.unsupported_reason("try", lack)


def test_float8_product_is_exact():
    """Sums of up to 512 products of -1, 0 and 1, with one rounding to bfloat16."""
    advice = ADVICE.format("multiply_float8() calls torch._scaled_mm(left, right, scale_a, scale_b, …)")
    assert float8_missing(matmul_of(FLOAT8, torch.device("cpu"))) == "", advice
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randint(-1, 2, (32, 512), generator=generator).to(torch.float8_e4m3fn) for _ in range(2))
    product = torch.empty(32, 32, dtype=torch.bfloat16)
    torch_internals.multiply_float8(torch.ones(()), left, right.t(), product)
    assert torch.equal(product, (left.double() @ right.t().double()).bfloat16()), advice


def test_torch_ring_takes_expected_arguments():
    assert torch_internals.ring_attention_missing() == "", ADVICE.format("until then the strategy torch is skipped")
    from torch.distributed.tensor.experimental._context_parallel import _attention

    taken = tuple(inspect.signature(_attention._templated_ring_attention).parameters)
    advice = ADVICE.format(f"ring_attention() calls {taken}")
    assert taken == (*torch_internals.RING_ARGUMENTS, "kwargs"), advice


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize("causal", [False, True])
def test_torch_ring_equals_attention_on_one_rank(causal):
    advice = ADVICE.format("ring_attention() must return the output first, and let us switch its zigzag order")
    query, key, value = parts(6)
    out = torch_internals.attend_in_ring(query, key, value, causal)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    torch.testing.assert_close(out, expected, msg=advice)


def test_other_process_finds_store_of_ranks(monkeypatch, tmp_path):
    """By a file, also one that this process knows by its own descriptor, or by a port."""
    (tmp_path / "file").touch()
    with open(tmp_path / "opened", "w+") as opened:
        files = dist.FileStore(str(tmp_path / "file")), dist.FileStore(f"/proc/self/fd/{opened.fileno()}")
        for store in (*files, dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)):
            inner = dist.PrefixStore("a", dist.PrefixStore("b", store))
            monkeypatch.setattr(torch_internals, "default_store", lambda inner=inner: inner)
            address = torch_internals.store_address()
            assert "self" not in str(address)
            torch_internals.store_at(address).set("key", "value")
            assert store.get("key") == b"value"


def test_symmetric_memory_has_expected_api():
    assert torch_internals.symmetric_memory_missing() == "", ADVICE.format("until then symmetric_memory is unavailable")
    from torch.distributed import _symmetric_memory

    advice = ADVICE.format("symmetric_empty() and all_gather_matmul() call _symmetric_memory and torch.ops.symm_mem")
    assert list(inspect.signature(_symmetric_memory.empty).parameters) == ["size", "dtype", "device"], advice
    inspect.signature(_symmetric_memory.rendezvous).bind(torch.zeros(1), "group")
    schema = torch.ops.symm_mem.fused_all_gather_matmul.default._schema
    names = [argument.name for argument in schema.arguments]
    assert names[1:] == ["Bs", "gather_dim", "group_name", "return_A"], advice
    assert [str(result.type) for result in schema.returns] == ["Optional[Tensor]", "List[Tensor]"], advice
