"""Faults of several tables become one finding per cause."""

import pytest
from analysis.acceptance.findings import MESSAGES, GroupedRanks, findings_of, sentence
from analysis.records.places import RankMapping, format_numbers, number_labels
from benchkit.statistics.faults import Fault

HOSTS = ["a", "a", "b", "b", "c", "c"]
RANKS = GroupedRanks(
    [RankMapping(rank, host) for rank, host in enumerate(HOSTS)],
    {"node": ["a", "b", "c"]},
    {"node": number_labels(HOSTS)},
)


def fault(family, subject, ratio=2.0):
    return Fault(family, subject, ratio, 10.0, 1)


def told(**faults):
    """The sentences on faults by table; a fault is (family, subject)."""
    found = findings_of({table: [fault(*each) for each in own] for table, own in faults.items()}, RANKS)
    return [sentence(each, RANKS) for each in found]


def test_finding_names_what_its_tables_agree_on(golden):
    found = [
        told(large=[("rank sends", 1), ("rank receives", 1)]),
        told(large=[("rank", 1, 3.0)], matmul=[("rank", 1)]),
        told(large=[("one way", 4 * 6 + 1)]),
        told(large=[("one way", 4 * 6 + 1)], small=[("one way", 1 * 6 + 4)]),
        told(large=[("node between one way", 2 * 3 + 1)]),
    ]
    golden("\n".join(line for [line] in found))


@pytest.mark.parametrize(
    ("cause", "consequence"),
    [
        (("rank", 1), ("one way", 1 * 6 + 4)),
        (("rank sends", 4), ("link", 1 * 6 + 4)),
        (("node whole", 0), ("rank", 1)),
        (("node network", 0), ("link", 1 * 6 + 4)),
        (("node network", 2), ("node between", 0 * 3 + 2)),
    ],
)
def test_consequence_is_no_finding(cause, consequence):
    large, small = f"{MESSAGES} 4 MiB", f"{MESSAGES} 8 B"
    assert told(**{large: [cause]}) == told(**{large: [cause], small: [consequence]})
    assert len(told(disk=[cause], **{small: [consequence]})) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [(("rank", 1), ("link", 2 * 6 + 4)), (("node network", 0), ("rank", 2)), (("one way", 1), ("one way", 2))],
)
def test_other_causes_are_findings(one, other):
    assert len(told(large=[one], small=[other])) == 2


def test_many_ranks_are_told_as_runs():
    assert format_numbers([3, 5, 6]) == "3, 5, 6"
    assert format_numbers(range(16, 32)) == "16 to 31"
    assert format_numbers([0, *range(2, 9), 12, 13]) == "0, 2 to 8, 12 to 13"
    assert format_numbers(range(0, 1024, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 and 504 more"
