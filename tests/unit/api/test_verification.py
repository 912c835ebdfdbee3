import functools
import itertools

import pytest
import torch
from benchkit.api import verification
from benchkit.errors import InvalidResult

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64)
OPS = ("sum", "avg", "min", "max", "product")


def all_patterns(world_size, dtype, op, turn=0, length=verification.PERIOD):
    """The patterns of all ranks at once: [rank, length], as `pattern` draws them one by one."""
    draw = verification.Draw(3, turn, world_size, dtype, op, length)
    ranks = torch.arange(world_size).unsqueeze(1)
    drawn = draw.values(ranks, (ranks - draw.first()) % world_size)
    alike = {"world_size": world_size, "dtype": dtype, "op": op, "length": length}
    assert torch.equal(drawn[-1], verification.pattern(seed=3, turn=turn, rank=world_size - 1, **alike))
    return list(drawn)


def combination(op):
    return {"min": torch.minimum, "max": torch.maximum, "product": torch.mul}.get(op, torch.add)


def has(op, dtype):
    return op != "avg" or dtype.is_floating_point


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("world_size", "length"), [(2, 65537), (3, 65537), (64, 3000), (500, 1), (4096, 40)])
def test_reduction_is_exact_in_any_order(world_size, length, op, dtype):
    if not has(op, dtype):
        return
    inputs = [pattern.to(dtype) for pattern in all_patterns(world_size, dtype, op, length=length)]
    for order in (inputs, inputs[::-1]):
        result = functools.reduce(combination(op), order)
        result = result / world_size if op == "avg" else result
        assert torch.equal(result, verification.expected_reduction(3, 0, world_size, dtype, op, length).to(dtype))


SIZES = [*(2**exponent for exponent in range(1, 13)), 3, 41, 1023, 4095]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("length", [1, 256, 3000])
def test_every_rank_shows_in_a_reduction(length, op, dtype):
    """Without a rank, or with it twice, elements differ by more than the tolerance: as many as `witnesses` says."""
    if not has(op, dtype):
        return
    for world_size in SIZES:
        shape = world_size, dtype, op, length
        least = verification.witnesses(*shape)
        result = verification.expected_reduction(3, 5, *shape)
        shown = 0
        for rank in sorted({0, 1, world_size // 3, world_size // 2, world_size - 1}):
            alike = {"world_size": world_size, "dtype": dtype, "op": op, "length": length}
            mine = verification.pattern(seed=3, turn=5, rank=rank, **alike)
            if op in ("min", "max"):  # else the others' values have the other sign
                changed = mine == result
                assert bool(((mine > 0) == (op == "max"))[changed].all())
                assert bool(((mine < 0) == (op == "max"))[~changed].all())
            elif op == "product":
                changed = (result * mine != result) & (result // mine != result)
            else:
                part = mine / world_size if op == "avg" else mine
                changed = part.abs() > 2 * verification.tolerance(*shape)
            assert changed.sum() >= least
            shown += int(changed.sum())
        assert shown or not least


@pytest.mark.parametrize("op", OPS)
def test_all_ranks_show_in_any_stretch_of_a_long_message(op):
    """So a chunk that lacks a rank is found, too."""
    world_size = 96
    for start in (0, 700, 2800):
        result = verification.expected_reduction(3, 5, world_size, torch.float16, op, 3000)
        seen = [
            bool(
                (mine == result if op in ("min", "max") else mine != (op == "product"))[
                    start : start + world_size
                ].any()
            )
            for mine in all_patterns(world_size, torch.float16, op, turn=5, length=3000)
        ]
        assert all(seen)


def test_witnesses_of_short_messages_of_many_ranks():
    """One element of a float32 sum shows all ranks; a maximum and a bfloat16 are too short for it."""

    def of(dtype, op, length):
        return verification.witnesses(4096, dtype, op, length)

    assert [of(torch.float32, op, 1) for op in OPS] == [1, 1, 0, 0, 1]
    assert [of(torch.float32, op, 256) for op in OPS] == [4, 4, 0, 0, 4]
    assert [of(torch.bfloat16, op, 16) for op in OPS] == [0, 0, 0, 0, 4]
    assert [of(torch.bfloat16, op, 256) for op in OPS] == [4, 4, 0, 0, 4]
    assert [of(torch.bfloat16, op, verification.PERIOD) for op in OPS] == [1024, 1024, 16, 16, 1024]


def test_plain_values_of_ranks_and_turns_differ():
    """Nearly everywhere: a message of one element, too, must not pass for another rank's."""
    alike = {"seed": 3, "world_size": 2, "dtype": torch.int32, "op": verification.PLAIN}
    drawn = [verification.pattern(rank=rank, turn=turn, **alike) for rank in range(2) for turn in range(2)]
    for one, other in itertools.combinations(drawn, 2):
        assert (one == other).sum() < 10
    assert all((values > verification.POISON).all() for values in drawn)


@pytest.mark.parametrize("op", OPS)
def test_short_buffer_verifies_partial_period(op):
    period = verification.expected_reduction(3, 0, 4, torch.float32, op, length=5)
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
@pytest.mark.parametrize("world_size", [3, 41, 61, 1023])
def test_avg_tolerance_passes_rounding_and_detects_missing_rank(world_size, dtype):
    """NCCL multiplies by 1/n in the dtype before it adds; others add, then divide."""
    length = 2000
    inputs = [values.to(dtype) for values in all_patterns(world_size, dtype, "avg", length=length)]
    scaled = [values * torch.tensor(1 / world_size, dtype=dtype) for values in inputs]
    shape = world_size, dtype, "avg", length
    period = verification.expected_reduction(3, 0, *shape).to(dtype)
    atol = verification.tolerance(*shape)
    verification.require_tiled(functools.reduce(torch.add, scaled), period, atol)
    verification.require_tiled(functools.reduce(torch.add, inputs) / world_size, period, atol)
    with pytest.raises(InvalidResult):
        verification.require_tiled(functools.reduce(torch.add, scaled[1:]), period, atol)


def test_tolerance_is_zero_for_exact_results():
    assert verification.tolerance(6, torch.float32, "sum") == verification.tolerance(8, torch.float32, "avg") == 0
