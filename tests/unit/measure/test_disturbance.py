"""Counters of what takes cores away, from files as the kernel writes them, and what analysis says of them."""

import os
import time

import pytest
from analysis.records import doubts

from tests.support.entries.measure import COUNTERS, Measurement, disturbance, numbers_after, pressure_s, read_counters
from tests.support.entries.report import sentences
from tests.support.records import as_record, make_record, tabulate_records
from tests.support.reports import describe


def test_counters_are_read_from_proc_files(tmp_path):
    stat, group, pressure = (tmp_path / name for name in ("stat", "cpu.stat", "cpu"))
    stat.write_text("cpu  10 20 30 40 50 60 70 800 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
    found = numbers_after(stat, "cpu ")
    assert (found[disturbance.STEAL], sum(found[disturbance.BUSY])) == (800, 60)
    group.write_text("usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n")
    assert numbers_after(group, "throttled_usec") == [2_500_000]
    pressure.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1234567\nfull avg10=0.00 total=0\n")
    assert pressure_s(pressure) == 1.234567
    assert disturbance.ghz_of(tmp_path) == 0
    (tmp_path / "scaling_cur_freq").write_text("2596124\n")
    assert disturbance.ghz_of(tmp_path) == 2.596124


def test_unknown_counters_are_zero(tmp_path):
    torn = tmp_path / "torn"
    torn.write_text("some avg10=0.00 avg60=0.00\ncpu  1 x\n")
    for path in (torn, tmp_path / "none"):
        assert numbers_after(path, "cpu ") == numbers_after(path, "throttled_usec") == []
        assert pressure_s(path) == 0


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """The control groups of this process, by name and text of their cpu.stat."""

    def install(**texts):
        for name, text in texts.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "cpu.stat").write_text(text)
        monkeypatch.setattr(disturbance, "cgroup_folders", lambda controller: [tmp_path / name for name in texts])

    disturbance.cpu_stats.cache_clear()
    yield install
    disturbance.cpu_stats.cache_clear()


def test_quotas_of_all_groups_hold_back(groups):
    groups(task="nr_throttled 2\nthrottled_usec 500000", job="nr_throttled 2\nthrottled_time 2000000000", root="x 1")
    assert read_counters()[COUNTERS.index("throttled_s")] == 2.5
    assert len(disturbance.cpu_stats()) == 2


def test_involuntary_switches_are_counted():
    before = read_counters()[COUNTERS.index("involuntary_switches")]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    busy = os.fork()
    if not busy:
        while True:
            pass
    deadline = time.monotonic() + 30
    while read_counters()[COUNTERS.index("involuntary_switches")] == before:
        assert time.monotonic() < deadline
    os.kill(busy, 9)
    os.waitpid(busy, 0)
    os.sched_setaffinity(0, cores)


def disturbed(**counted):
    record = make_record()
    [case] = record["cases"]
    case["elapsed_s"] = 10.0
    case["disturbance"] = {name: [0.0, 0.0] for name in COUNTERS} | counted
    return record


def first_case(record):
    return as_record(record).cases[0]


def test_disturbed_case_is_described(golden):
    changing = Measurement()
    for ghz in ([3.0, 3.1], [2.9, 2.0], [3.2, 2.5]):
        changing.add_frequency(ghz)
    assert changing.disturbance == {"lowest_ghz": [2.9, 2.0], "highest_ghz": [3.2, 3.1]}
    busy = {"host_busy_s": [15.0, 14.9], "own_busy_s": [6.0, 5.0]}
    records = [
        disturbed(steal_s=[0.3, 0.2], throttled_s=[0.0, 2.0], **busy),
        disturbed(gpu_clock_reasons=[3.0, float(0x04 | 0x40)]),
        disturbed(**changing.disturbance),
    ]
    said = [doubts.describe_disturbance(first_case(record)) for record in records]
    table = tabulate_records(records[:1])
    assert table["disturbed"].tolist() == said[:1]
    report = [*describe(table).splitlines(), *sentences.noise_sentences(table)]
    golden("\n".join([*said, *(line for line in report if "disturbed" in line)]))


@pytest.mark.parametrize(
    ("counted", "told"),
    [
        ({"host_busy_s": [15.0, 15.0], "own_busy_s": [1.0, 1.0]}, {"num_hosts": 2}),  # of which host?
        ({"throttled_s": [0.0, 5.0]}, {"slowed_by": "cgroup"}),  # as intended
        ({"pressure_s": [9.0], "involuntary_switches": [5e3], "host_busy_s": [9.9], "own_busy_s": [9.0]}, {}),
        ({"gpu_clock_reasons": [2.0, 1.0]}, {}),
        ({"lowest_ghz": [2.9, 0.0], "highest_ghz": [3.0, 0.0]}, {}),
    ],
)
def test_what_does_not_matter_is_not_described(counted, told):
    assert doubts.describe_disturbance(first_case(disturbed(**counted)), **told) == ""


def test_record_without_counters_is_undisturbed():
    assert doubts.describe_disturbance(first_case(make_record())) == ""
    assert tabulate_records([make_record()])["disturbed"].isna().all()
