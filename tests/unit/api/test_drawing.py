"""Matrices that are drawn alike on all ranks, whole or in parts."""

import pytest
import torch
from benchkit.api.drawing import BLOCK, integers, uniform, whole

CPU = torch.device("cpu")
WIDE = whole(3, BLOCK)
"""Of several blocks."""


def ternary(part=WIDE, key=(1, 2)):
    return integers(part, -1, 2, key=key, device=CPU)


def real(part=WIDE, key=(1, 2)):
    return uniform(part, key=key, device=CPU)


@pytest.mark.parametrize("draw", [ternary, real])
def test_part_is_that_of_whole_matrix(draw):
    part = slice(1, 3), slice(BLOCK // 2, BLOCK // 2 + 77)
    assert torch.equal(draw(part), draw()[part])
    assert torch.equal(draw(whole(3, 7)), draw()[:, :7])
    assert draw((slice(2, 2), slice(0, 5))).shape == (0, 5)
    assert draw((slice(0, 5), slice(2, 2))).shape == (5, 0)


@pytest.mark.parametrize("draw", [ternary, real])
def test_keys_rows_and_columns_differ(draw):
    square = draw(whole(300, 300))
    others = [draw(whole(300, 300), key) for key in ((1, 3), (2, 2), (2, 1), -1)]
    for other in (square.T, square.roll(1, 0), square.roll(1, 1), *others):
        assert (square == other).double().mean() < 0.4
    assert len(square.unique(dim=0)) == len(square.unique(dim=1)) == 300


def test_integers_are_equally_likely_and_in_range():
    found, counts = ternary().unique(return_counts=True)
    assert found.tolist() == [-1, 0, 1]
    assert (counts / counts.sum() - 1 / 3).abs().max() < 0.005
    large = integers(WIDE, 0, 10**9, key=1, device=CPU, dtype=torch.int64)
    assert 0 <= large.min() < 1e5
    assert 1e9 - 1e5 < large.max() < 1e9


def test_real_numbers_are_as_independent_as_those_of_torch():
    """By the largest singular value, which is about sqrt(4 N / 3) for N x N numbers of variance 1 / 3."""
    square = real(whole(500, 500)).double()
    assert square.abs().max() <= 1
    assert square.mean().abs() < 0.005
    assert square.var() == pytest.approx(1 / 3, rel=0.01)
    assert torch.linalg.matrix_norm(square, 2) == pytest.approx((4 * 500 / 3) ** 0.5, rel=0.05)


def test_variance_is_as_asked():
    drawn = uniform(WIDE, key=1, device=CPU, variance=1 / 64)
    assert drawn.double().var() == pytest.approx(1 / 64, rel=0.01)
