"""Spikes and times of two kinds, on samples whose nature is known; and who was last."""

import numpy as np
import pytest
from benchkit.statistics.intervals import find_modes
from benchkit.statistics.samples import Samples

from tests.support.entries.report import sentences
from tests.support.records import make_record, tabulate_ranks, tabulate_records
from tests.support.reports import describe


def test_spikes_split_into_all_and_some_ranks():
    samples = np.ones((3, 200))
    samples[:, :10] = 6
    samples[1, 10:14] = 6
    record = make_record(world_size=3, samples=200)
    record["cases"][0] |= {"samples_s": samples.tolist()}
    [row] = tabulate_records([record]).to_dict("records")
    assert (row["spikes_all_share"], row["spikes_some_share"]) == pytest.approx((0.05, 0.02))
    assert tabulate_records([make_record(world_size=1)])["spikes_some_share"].tolist() == [0]


@pytest.mark.parametrize("count", [100, 2000])
def test_unimodal_times_rarely_have_two_modes(count):
    draw = np.random.default_rng(0)
    kinds = [lambda: np.exp(draw.normal(0, 0.3, count)), lambda: 1 + draw.exponential(0.3, count)]
    taken = sum(find_modes(kind()) is not None for kind in kinds for _ in range(100))
    assert taken <= 4


@pytest.mark.parametrize("count", [300, 2000])
def test_two_modes_give_ratio_and_share(count):
    draw = np.random.default_rng(0)
    times = np.where(draw.random(count) < 0.2, 4.0, 0.2) * np.exp(draw.normal(0, 0.2, count))
    found = find_modes(times)
    assert found.fast_s == pytest.approx(0.2, rel=0.1)
    assert found.slow_s == pytest.approx(4.0, rel=0.1)
    assert found.slow_share == pytest.approx(0.2, abs=0.05)


def test_clock_resolution_is_no_mode():
    draw = np.random.default_rng(0)
    times = np.round(draw.normal(10e-6, 30e-9, 2000) / 32e-9) * 32e-9
    assert find_modes(times) is None


def test_few_or_constant_samples_have_no_modes():
    assert find_modes(np.ones(500)) is None
    assert find_modes(np.array([1.0, 9.0] * 40)) is None


def test_last_share_ignores_ties():
    starts, samples = np.zeros((2, 4)), np.array([[1.0, 3.0, 3.0, 2.0], [2.0, 1.0, 1.0, 2.0]])
    assert Samples(samples, starts).last_shares.tolist() == [0.5, 0.25]


def disturbed_record():
    record = make_record()
    [case] = record["cases"]
    fast = [1e-3] * 300 + [9e-3] * 100
    case["samples_s"] = [[each * (1 + 0.001 * (i % 7)) for i, each in enumerate(fast)] for _ in range(2)]
    case["samples_s"][1] = [each + 1e-5 for each in case["samples_s"][1]]
    case["start_offsets_s"] = [[0.0] * 400, [2e-6] * 400]
    return record


def test_text_reports_spikes_and_modes(golden):
    table = tabulate_records([disturbed_record()])
    golden(sentences.as_markdown(list(sentences.noise_sentences(table))))
    assert "noise.md" in describe(table)


def test_rank_table_has_last_share_and_lateness():
    table = tabulate_ranks(disturbed_record())
    assert table["last_share"].tolist() == [0, 1]
    assert table["late_s"][1] == pytest.approx(2e-6)
    assert table["spike_share"][1] == pytest.approx(0.25)
    unsure = disturbed_record() | {"start_clock": {"estimator": "ping_pong", "uncertainty_s": 1.0}}
    assert "last_share" not in tabulate_ranks(unsure)
