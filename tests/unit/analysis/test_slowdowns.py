"""The slowdowns of rows in words: what was asked, and what was measured where it is far from that."""

import pandas as pd
import pytest
from analysis.records.slowdowns import slowdowns

MEASURED = "measured_slowdown"


def read(*rows):
    """The slowdowns of rows, given as (asked, measured)."""
    cells = [(asked, measured, len(measured.split()) if measured else 2) for asked, measured in rows]
    return slowdowns(pd.DataFrame(cells, columns=["slowdown", MEASURED, "world_size"]))


def named(*rows):
    return list(map(str, read(*rows)))


@pytest.mark.parametrize(
    ("asked", "measured", "name"),
    [
        ("2", None, "2"),
        ("2", "1 2.1", "2"),
        ("2", "1 1.08", "2 (measured 1.1)"),
        ("4", "1 1 5.21", "4 (measured 5.2)"),
        ("[1, 2, 4]", "1 2 4.1", "1, 2, 4"),
        ("[1, 2, 4]", "1 1.2 4.1", "1, 2, 4 (measured 1, 1.2, 4.1)"),
        ("1", "1 1.3", "1 (measured 1.3)"),
        ("2", "1.3 2", "2"),
    ],
)
def test_measured_factors_stand_beside_those_far_from_them(asked, measured, name):
    assert named((asked, measured)) == [name]


def test_equal_slowdowns_have_one_name():
    assert named(("2", "1 1.08"), ("2", "1 1.18"), ("2", None), ("4", "1 4")) == [
        *["2 (measured 1.1 to 1.2)"] * 3, "4",
    ]  # fmt: skip


def test_names_do_not_tell_slowdowns_apart():
    [asked], [measured] = read(("2", None)), read(("2", "1 3"))
    assert asked == measured
    assert len({asked, measured}) == 1
