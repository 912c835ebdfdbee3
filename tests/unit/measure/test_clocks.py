"""How calls and regions are timed, by the host or by events on a GPU that a delay keeps busy before."""

import time
from types import SimpleNamespace

import pytest
from benchkit.api.case import Case
from benchkit.api.regions import QUEUEING

from tests.support.entries.measure import LONGEST_S, MARGIN, SLACK_S, HostClock, LaunchDelay, measure
from tests.support.entries.measure import clocks as module
from tests.support.fakes import FakeCuda, alone, cuda_clock, plan

CALL = ["kernel"] * 2


def test_delay_precedes_begin_event():
    """The last spin is queued before the event that begins, and the calls are queued while it lasts."""
    cuda = FakeCuda()
    clock = cuda_clock(cuda, align=lambda: cuda.queue("align", 50.0))
    cuda.kernel(100.0)  # what reset() left on the stream
    cuda.calls.clear()
    _, duration = clock.time(lambda: cuda.kernel(2.5), 2, delay_s=0.003)
    assert cuda.calls == ["synchronize", "spin", "align", "record", *CALL, "record", "synchronize"]
    assert duration == pytest.approx(0.005)
    assert cuda.stream_ms == pytest.approx(5 * 10 + 100 + 3 + 50 + 5)  # spins, reset, delay, align, calls
    assert clock.name == "cuda_event"


@pytest.mark.parametrize(
    ("clock", "delay_s", "expected"),
    [({"align_blocks": True}, 0.003, ["align", "spin"]), ({}, 0.003, ["spin", "align"]), ({}, 0.0, ["align"])],
)
def test_delay_follows_only_an_align_that_blocks(clock, delay_s, expected):
    cuda = FakeCuda()
    cuda_clock(cuda, align=lambda: cuda.queue("align", 50.0), **clock).time(lambda: cuda.kernel(2.5), 2, delay_s)
    assert cuda.calls == ["synchronize", *expected, "record", *CALL, "record", "synchronize"]


def test_cuda_clock_keeps_time_of_queueing():
    cuda = FakeCuda()
    clock = cuda_clock(cuda)
    _, duration = clock.time(lambda: (time.sleep(0.002), cuda.kernel(1e-3)), repeat=3)
    assert duration == pytest.approx(3e-6)
    assert clock.take_regions()[QUEUEING] >= 0.006
    assert clock.take_regions() == {}


def test_cuda_clock_times_regions():
    cuda = FakeCuda()
    clock = cuda_clock(cuda)
    for _ in range(2):
        with clock.region("compute"):
            cuda.kernel(3.0)
        with clock.region("issue_on_host"):
            time.sleep(0.002)
            cuda.kernel(1e6)
    by_event = ["push compute", "record", "kernel", "record", "pop"]
    by_host = ["push issue_on_host", "kernel", "pop"]
    assert cuda.calls == [*by_event, *by_host] * 2
    cuda.synchronize()
    taken = clock.take_regions()
    assert taken["compute"] == 0.006
    assert 0.004 <= taken["issue_on_host"] < 1000  # what is queued there costs the host nothing
    assert clock.take_regions() == {}


def test_regions_not_ready_are_forgotten():
    """Events that reset() recorded may not have fired when a sample begins."""
    cuda = FakeCuda()
    clock = cuda_clock(cuda)
    for name in ("compute", "issue_on_host"):
        with clock.region(name):
            cuda.kernel(3.0)
    with pytest.raises(RuntimeError):
        clock.take_regions()
    clock.forget_regions()
    assert clock.take_regions() == {}


def test_host_clock_times_repeated_calls():
    calls = []
    clock = HostClock()
    before = clock.now()
    start, duration = clock.time(lambda: calls.append(1), repeat=7)
    assert len(calls) == 7
    assert before <= start <= start + duration <= clock.now()
    clock.time(lambda: calls.append(1), repeat=1)
    assert len(calls) == 8
    with clock.region("compute"):
        pass
    clock.forget_regions()
    assert clock.take_regions() == {}


def test_gpu_is_looked_at_while_it_works():
    cuda = FakeCuda()
    clock = cuda_clock(cuda, while_busy=lambda: cuda.calls.append("look"))
    clock.time(lambda: cuda.kernel(2.5), 2)
    assert cuda.calls[-4:] == ["kernel", "record", "look", "synchronize"]


def test_host_times_until_gpu_is_done():
    cuda = FakeCuda()
    clock = cuda_clock(cuda, align=lambda: cuda.queue("align", 50.0))
    _, duration = clock.time(lambda: (time.sleep(0.002), cuda.kernel(1e-3)), 2, delay_s=None)
    assert cuda.calls == ["synchronize", "align", "synchronize", *CALL, "synchronize"]
    assert 0.004 <= duration < 1000
    assert clock.take_regions() == {}


def test_delay_is_longer_than_queueing():
    delay = LaunchDelay()
    delay.learn([0.001, 0.5, 0.001])
    assert delay.seconds == pytest.approx(MARGIN * 0.001 + SLACK_S)
    delay.learn([0.001, 0.5, 0.002])
    assert delay.seconds == pytest.approx(MARGIN * 0.001 + SLACK_S)  # one sample was held up by chance
    longest = (LONGEST_S - SLACK_S) / MARGIN
    for queueing_s, seconds in ((longest, LONGEST_S), (1.01 * longest, 0.0)):  # all of it hidden, or nothing
        delay = LaunchDelay()
        delay.learn([queueing_s])
        assert delay.seconds == pytest.approx(seconds)


def test_call_that_waits_for_device_has_no_delay():
    delay = LaunchDelay()
    delay.learn([0.001])
    delay.learn([0.001 + delay.seconds])
    assert delay.seconds == 0.0
    delay.learn([0.001])
    assert delay.seconds == 0.0


class Recorder:
    """Wraps a clock and keeps the delays that are asked for."""

    def __init__(self, clock):
        self.clock, self.delays = clock, []

    def __getattr__(self, name):
        return getattr(self.clock, name)

    def time(self, call, repeat, delay_s=0.0):
        self.delays.append(delay_s)
        return self.clock.time(call, repeat, delay_s)


@pytest.fixture
def host(monkeypatch):
    """The clock of a host whose time does not pass by itself."""
    host = SimpleNamespace(seconds=0.0)
    host.perf_counter = lambda: host.seconds
    monkeypatch.setattr(module, "time", host)
    return host


@pytest.mark.parametrize(("warm_up", "without"), [(2, 2), (0, 1)])
def test_samples_after_warmup_have_lead(host, warm_up, without):
    """Another rank, played by the all_gather, queues ten times as long: all ranks have its delay.

    One more sample, set aside, shows whether calls wait for the device; all that are kept have the delay.
    """
    cuda = FakeCuda()

    def step():
        host.seconds += 1e-4
        cuda.kernel(1.0)

    clock = Recorder(cuda_clock(cuda))
    config = plan(warmup_iterations=warm_up, max_iterations=5, min_blocks=2, mode="loop", calls_per_sample=3)
    [result] = measure(
        [Case(step=step, regions=("never",))],
        config,
        clock=clock,
        barrier=lambda: None,
        all_gather=lambda values: [values, [10 * value for value in values]],
        seed=0,
    )
    assert clock.delays[:without] == [0.0] * without
    assert clock.delays[without:] == pytest.approx([MARGIN * 10 * 3 * 1e-4 + SLACK_S] * (1 + 5))
    assert result.regions_s[QUEUEING] == [pytest.approx([1e-4] * 5), pytest.approx([1e-3] * 5)]
    assert result.regions_s["never"] == [[0.0] * 5] * 2
    assert result.samples_s[0] == pytest.approx([1e-3] * 5)


def test_reset_may_leave_open_events():
    cuda = FakeCuda()
    clock = cuda_clock(cuda)

    def reset():
        with clock.region("compute"):
            cuda.kernel(7.0)

    case = Case(step=lambda: cuda.kernel(1.0), reset=reset, regions=("compute",))
    [result] = measure([case], plan(max_iterations=2), clock=clock, barrier=lambda: None, all_gather=alone, seed=0)
    assert result.regions_s["compute"] == [[0.0] * 2]


@pytest.mark.parametrize(("mode", "on_host"), [("cold", False), ("loop", True)])
def test_host_times_its_own_work(host, mode, on_host):
    """Behind a delay, or between two events, work of the host takes no time."""
    cuda = FakeCuda()

    def step():
        host.seconds += 0.003

    clock = Recorder(cuda_clock(cuda))
    config = plan(warmup_iterations=0 if mode == "cold" else 2, max_iterations=5, mode=mode, calls_per_sample=1)
    case = Case(step=step, on_host=on_host)
    [result] = measure([case], config, clock=clock, barrier=lambda: None, all_gather=alone, seed=0)
    assert set(clock.delays) == {None}
    assert result.samples_s == [pytest.approx([0.003] * 5)]
