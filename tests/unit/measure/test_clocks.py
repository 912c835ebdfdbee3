import time

import pytest
from benchkit.api.details import QUEUEING
from benchkit.measure.clocks import HostClock

from tests.support.fakes import FakeCuda, cuda_clock

CALL = ["kernel"] * 2


def test_lead_precedes_begin_event():
    """The last spin is queued before the event that begins, and the calls are queued while it lasts."""
    cuda = FakeCuda()
    clock = cuda_clock(cuda, align=lambda: cuda.queue("align", 50.0))
    cuda.kernel(100.0)  # what reset() left on the stream
    cuda.calls.clear()
    _, duration = clock.time(lambda: cuda.kernel(2.5), 2, lead_s=0.003)
    assert cuda.calls == ["synchronize", "spin", "align", "record", *CALL, "record", "synchronize"]
    assert duration == pytest.approx(0.005)
    assert cuda.stream_ms == pytest.approx(5 * 10 + 100 + 3 + 50 + 5)  # spins, reset, lead, align, calls
    assert clock.name == "cuda_event"


def test_lead_follows_blocking_align():
    cuda = FakeCuda()
    clock = cuda_clock(cuda, align=lambda: cuda.queue("align", 50.0), align_blocks=True)
    clock.time(lambda: cuda.kernel(2.5), 2, lead_s=0.003)
    assert cuda.calls == ["synchronize", "align", "spin", "record", *CALL, "record", "synchronize"]


def test_no_lead_means_no_spin():
    cuda = FakeCuda()
    clock = cuda_clock(cuda)
    clock.time(lambda: cuda.kernel(2.5), 2)
    assert cuda.calls == ["synchronize", "record", *CALL, "record", "synchronize"]


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
    with pytest.raises(RuntimeError, match="not ready"):
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


def test_host_clock_forgets_regions():
    clock = HostClock()
    with clock.region("compute"):
        pass
    clock.forget_regions()
    assert clock.take_regions() == {}


def test_host_times_until_gpu_is_done():
    cuda = FakeCuda()
    clock = cuda_clock(cuda, align=lambda: cuda.queue("align", 50.0))
    _, duration = clock.time(lambda: (time.sleep(0.002), cuda.kernel(1e-3)), 2, lead_s=None)
    assert cuda.calls == ["synchronize", "align", "synchronize", *CALL, "synchronize"]
    assert 0.004 <= duration < 1000
    assert clock.take_regions() == {}
