"""Counters of what takes cores away, from files as the kernel writes them, and what analysis says of them."""

import os
import time

from analysis.records import disturbances
from analysis.report import noise, sentences
from benchkit.measure import disturbance
from benchkit.measure.disturbance import COUNTERS, numbers_after, pressure_s, read_counters
from benchkit.measure.measurement import Measurement

from tests.support.records import as_record, as_version_2, make_record, tabulate_records


def test_counters_are_read_from_proc_files(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 20 30 40 50 60 70 800 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
    found = numbers_after(stat, "cpu ")
    assert (found[disturbance.STEAL], sum(found[disturbance.BUSY])) == (800, 60)
    group = tmp_path / "cpu.stat"
    group.write_text("usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n")
    assert numbers_after(group, "throttled_usec") == [2_500_000]
    pressure = tmp_path / "cpu"
    pressure.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1234567\nfull avg10=0.00 total=0\n")
    assert pressure_s(pressure) == 1.234567


def test_quotas_of_all_groups_hold_back(tmp_path, monkeypatch):
    texts = {
        "task": "nr_throttled 2\nthrottled_usec 500000",
        "job": "nr_throttled 2\nthrottled_time 2000000000",
        "": "x 1",
    }
    for name, text in texts.items():
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "cpu.stat").write_text(text)
    monkeypatch.setattr(disturbance, "group_folders", lambda controller: [tmp_path / name for name in texts])
    disturbance.cpu_stats.cache_clear()
    try:
        assert read_counters()[COUNTERS.index("throttled_s")] == 2.5
        assert len(disturbance.cpu_stats()) == 2
    finally:
        disturbance.cpu_stats.cache_clear()


def test_unknown_counters_are_zero(tmp_path):
    torn = tmp_path / "torn"
    torn.write_text("some avg10=0.00 avg60=0.00\ncpu  1 x\n")
    for path in (torn, tmp_path / "none"):
        assert numbers_after(path, "cpu ") == numbers_after(path, "throttled_usec") == []
        assert pressure_s(path) == 0


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


def test_disturbed_case_is_described():
    record = disturbed(steal_s=[0.3, 0.2], throttled_s=[0.0, 2.0], host_busy_s=[15.0, 14.9], own_busy_s=[6.0, 5.0])
    said = disturbances.describe(first_case(record))
    assert said == (
        "other machines of the host took 3.0% of a core; held back by a CPU quota for 20.0% of the time; "
        "other processes used 40% of a core"
    )
    table = tabulate_records([record])
    assert table["disturbed"].tolist() == [said]
    assert "1 disturbed: noise.md names them" in sentences.describe(table)
    assert said in "\n".join(noise.describe(table))


def test_host_load_is_omitted_for_several_hosts():
    case = first_case(disturbed(host_busy_s=[15.0, 15.0], own_busy_s=[1.0, 1.0]))
    assert disturbances.describe(case) == "other processes used 130% of a core"
    assert disturbances.describe(case, num_hosts=2) == ""


def test_intended_quota_is_no_disturbance():
    held = first_case(disturbed(throttled_s=[0.0, 5.0]))
    assert disturbances.describe(held, "cgroup") == ""
    assert disturbances.describe(held, "duty_cycle") == "held back by a CPU quota for 50.0% of the time"


def test_undisturbed_case_has_no_description():
    calm = disturbed(pressure_s=[9.0, 9.0], involuntary_switches=[5000.0, 0.0], host_busy_s=[9.9], own_busy_s=[9.0])
    assert disturbances.describe(first_case(calm)) == ""
    assert disturbances.describe(first_case(as_version_2(make_record()))) == ""
    assert tabulate_records([calm])["disturbed"].isna().all()


def test_gpu_that_was_held_back_is_described():
    held = first_case(disturbed(gpu_clock_reasons=[3.0, float(0x04 | 0x40)]))
    assert disturbances.describe(held) == "a GPU's clocks were held back: power cap, temperature (hardware)"
    assert disturbances.describe(first_case(disturbed(gpu_clock_reasons=[2.0, 1.0]))) == ""


def test_frequency_is_ghz_or_zero(tmp_path):
    assert disturbance.ghz_of(tmp_path) == 0
    (tmp_path / "scaling_cur_freq").write_text("2596124\n")
    assert disturbance.ghz_of(tmp_path) == 2.596124
    assert disturbance.core_ghz() >= 0


def test_wide_frequency_range_is_reported():
    measurement = Measurement()
    for ghz in ([3.0, 3.1], [2.9, 2.0], [3.2, 2.5]):
        measurement.add_frequency(ghz)
    assert measurement.disturbance == {"lowest_ghz": [2.9, 2.0], "highest_ghz": [3.2, 3.1]}
    record = disturbed(**measurement.disturbance)
    said = disturbances.describe(first_case(record))
    assert said == "a core's frequency was between 2.00 and 3.10 GHz"
    assert disturbances.describe(first_case(disturbed(lowest_ghz=[2.9, 0.0], highest_ghz=[3.0, 0.0]))) == ""
