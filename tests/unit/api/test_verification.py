import pytest
import torch
from benchkit.api import verification
from benchkit.errors import InvalidResult

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64)
OPS = ("sum", "avg", "min", "max", "product")


def all_patterns(world_size, dtype, op, turn=0):
    return [
        verification.pattern(seed=3, turn=turn, rank=rank, world_size=world_size, dtype=dtype, op=op)
        for rank in range(world_size)
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("world_size", [2, 3, 64])
def test_reduction_is_exact_in_any_order(world_size, op, dtype):
    if op == "avg" and not dtype.is_floating_point:
        return
    inputs = [pattern.to(dtype) for pattern in all_patterns(world_size, dtype, op)]
    combine = {"min": torch.minimum, "max": torch.maximum, "product": torch.mul}.get(op, torch.add)
    for order in (inputs, inputs[::-1]):
        result = order[0]
        for values in order[1:]:
            result = combine(result, values)
        result = result / world_size if op == "avg" else result
        assert torch.equal(result, verification.reduced(3, 0, world_size, dtype, op).to(dtype))


@pytest.mark.parametrize("op", OPS)
def test_short_buffer_verifies_partial_period(op):
    period = verification.reduced(3, 0, 4, torch.float32, op, length=5)
    assert period.shape == (5,)
    buffer = torch.empty(5)
    verification.tile(buffer, period.float())
    verification.require_tiled(buffer, period.float())
    buffer[4] += 1
    with pytest.raises(InvalidResult, match="element 4"):
        verification.require_tiled(buffer, period.float())


def test_patterns_differ_by_rank_and_turn():
    first, second = all_patterns(2, torch.float32, "sum")
    assert not torch.equal(first, second)
    assert not torch.equal(first, all_patterns(2, torch.float32, "sum", turn=1)[0])
    assert torch.equal(first, all_patterns(2, torch.float32, "sum")[0])


@pytest.mark.parametrize("length", [5, verification.PERIOD, 70 * verification.PERIOD + 2])
def test_require_tiled_accepts_tiled_buffer(length):
    period = all_patterns(1, torch.float32, "sum")[0].float()
    buffer = torch.full((length,), float("nan"))
    verification.tile(buffer, period)
    assert torch.equal(buffer, period.repeat(length // len(period) + 1)[:length])
    verification.require_tiled(buffer, period)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_require_tiled_compares_values_of_every_dtype(dtype):
    period = all_patterns(1, dtype, "sum")[0].to(dtype)
    buffer = torch.empty(3 * verification.PERIOD + 7, dtype=dtype)
    verification.tile(buffer, period)
    verification.require_tiled(buffer, period)
    if dtype.is_floating_point:
        buffer[buffer == 0] *= -1  # equal, though not to the bit: a sum may have either zero
        verification.require_tiled(buffer, period)
    buffer[-1] = -buffer[-1] + 1
    with pytest.raises(InvalidResult, match=f"element {len(buffer) - 1}: "):
        verification.require_tiled(buffer, period)


@pytest.mark.parametrize("wrong", [0, 65536, 65537, 70 * 65537])
def test_require_tiled_names_wrong_element(wrong):
    period = all_patterns(1, torch.float32, "sum")[0].float()
    buffer = torch.empty(70 * verification.PERIOD + 2)
    verification.tile(buffer, period)
    buffer[wrong] += 1
    with pytest.raises(InvalidResult, match=f"element {wrong}: .*1 of"):
        verification.require_tiled(buffer, period)


@pytest.mark.parametrize("chunk", [1024, 65536])
def test_require_tiled_rejects_swap_nan_and_stale(chunk):
    period = all_patterns(2, torch.float32, "sum")[0].float()
    buffer = torch.empty(4 * 65536)
    verification.tile(buffer, period)
    swapped = buffer.clone()
    swapped[:chunk], swapped[chunk : 2 * chunk] = buffer[chunk : 2 * chunk], buffer[:chunk]
    poisoned = buffer.clone()
    poisoned[77] = float("nan")
    stale = torch.empty_like(buffer)
    verification.tile(stale, all_patterns(2, torch.float32, "sum", turn=9)[0].float())
    for broken in (swapped, poisoned, stale):
        with pytest.raises(InvalidResult):
            verification.require_tiled(broken, period)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("world_size", [3, 41, 61])
def test_avg_tolerance_detects_missing_rank(world_size, dtype):
    """NCCL multiplies by 1/n in the dtype before it adds."""
    inputs = [pattern.to(dtype) for pattern in all_patterns(world_size, dtype, "avg")]
    scaled = [values * torch.tensor(1 / world_size, dtype=dtype) for values in inputs]
    period = verification.reduced(3, 0, world_size, dtype, "avg").to(dtype)
    atol = verification.tolerance(world_size, dtype, "avg")
    verification.require_tiled(torch.stack(scaled).sum(0), period, atol)
    with pytest.raises(InvalidResult):
        verification.require_tiled(torch.stack(scaled[1:]).sum(0), period, atol)


def test_tolerance_is_zero_for_exact_results():
    assert verification.tolerance(6, torch.float32, "sum") == verification.tolerance(8, torch.float32, "avg") == 0
