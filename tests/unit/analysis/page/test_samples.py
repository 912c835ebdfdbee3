"""Samples on the page: packed, thinned honestly, and found again by their rows."""

import base64
import json

import numpy as np
import pytest
from analysis.page import figures
from benchkit.statistics.intervals import FEWEST_SAMPLES

from tests.support.entries.report import PAGE_ROW, with_ids
from tests.support.records import as_record, make_record, write_all
from tests.support.reports import table_in


def numbers(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def packed(record, most=figures.MOST_VALUES):
    record = as_record(record)
    return figures.pack_samples(record.cases[0], 1.0, most)


def test_few_samples_travel_whole():
    record = make_record(samples=50)
    found = packed(record)
    assert (found["n"], found["step"]) == (50, 1)
    assert numbers(found["times"]) == pytest.approx(record["cases"][0]["samples_s"][0])


def test_many_samples_keep_their_extremes():
    times = np.random.default_rng(0).lognormal(-7, 0.2, 1001)
    times[500] = 1.0
    step, (low, middle, high) = figures.downsample(times, 300)
    assert step == 11
    assert len(low) == len(high) == 91
    assert (low.min(), high.max()) == (times.min(), 1.0)
    assert high[500 // step] == 1.0  # a spike stays where it was
    assert middle[0] == np.median(times[:step])
    assert middle[-1] == np.median(times[90 * step :])  # what is left over


def test_histogram_and_quantiles_are_of_all_samples():
    record = make_record(samples=997, world_size=2)
    record["cases"][0]["samples_s"][1] = [1e-6 * (number + 1) for number in range(997)]
    found = packed(record, 60)
    assert found["step"] > 1
    assert sum(found["counts"]) == found["n"] == 997
    slowest = np.max(record["cases"][0]["samples_s"], axis=0)
    assert (found["low"], found["high"]) == (slowest.min(), slowest.max())
    quantiles = numbers(found["quantiles"]).reshape(2, -1)
    expected = np.percentile(record["cases"][0]["samples_s"][1], figures.QUANTILES)
    assert quantiles[1] == pytest.approx(expected, rel=1e-6)


def test_equal_samples_have_one_bin():
    assert packed(make_record(spread=0.0))["counts"] == [FEWEST_SAMPLES]
    assert figures.sparkline([FEWEST_SAMPLES]) == "M0,20V0h32V20Z"


def test_slowest_of_many_ranks_are_shown():
    record = make_record(world_size=figures.MOST_RANKS + 2, samples=3)
    rows = [[1e-3] * 3 for _ in range(figures.MOST_RANKS + 2)]
    rows[0] = rows[7] = [1e-4] * 3  # the two fastest
    record["cases"][0]["samples_s"] = rows
    found = packed(record)
    assert found["num_ranks"] == figures.MOST_RANKS + 2
    assert set(range(figures.MOST_RANKS + 2)) - set(found["ranks"]) == {0, 7}


@pytest.mark.parametrize(("cases", "ranks"), [(1, 2), (1000, 16), (5000, 64), (0, 2)])
def test_samples_share_their_room(cases, ranks):
    count = figures.values_per_case(cases, ranks)
    assert figures.FEWEST_VALUES <= count <= figures.MOST_VALUES
    if count > figures.FEWEST_VALUES:
        assert cases * 4 * (count + 7 * min(ranks, 64)) * 4 / 3 < figures.NUM_BYTES


def test_rows_find_their_samples(tmp_path):
    sound, failed = make_record(1.0, seconds=1e-3), make_record(2.0, status="crash")
    two = make_record(3.0)
    [case] = two["cases"]
    slower = [[2e-3] * 400] * 2
    two["cases"] = [
        case | {"labels": {"way": "a"}}, case | {"labels": {"way": "b"}, "status": "invalid"},
        case | {"labels": {"way": "c"}, "samples_s": slower},
    ]  # fmt: skip
    table = with_ids(table_in(write_all(tmp_path, [sound, failed, two])))
    found = figures.samples_of(table)
    measured = table[table["status"] == "ok"]
    assert list(found) == list(measured[PAGE_ROW])
    for row in measured.to_dict("records"):
        assert found[row[PAGE_ROW]]["median"] == row["median_s"]
        assert np.median(numbers(found[row[PAGE_ROW]]["times"])) == pytest.approx(row["median_s"])
    assert json.loads(json.dumps(found)) == found


def test_record_that_changed_or_went_has_no_samples(tmp_path):
    folder = write_all(tmp_path, [make_record(1.0), make_record(2.0), make_record(3.0)])
    table = with_ids(table_in(folder))
    (folder / "0" / "record.json").unlink()
    other = make_record(2.0)
    other["cases"] *= 2
    (folder / "1" / "record.json").write_text(json.dumps(other))
    assert list(figures.samples_of(table)) == ["r2"]
