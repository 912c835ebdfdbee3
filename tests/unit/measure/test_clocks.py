import time

from benchkit.measure.clocks import CudaClock, HostClock

from tests.support.fakes import FakeCuda


def test_cuda_clock_times_only_calls():
    cuda = FakeCuda()
    cuda.kernel(100.0)  # what reset() left on the stream
    clock = CudaClock(cuda, align=lambda: cuda.kernel(50.0))
    cuda.calls.clear()
    _, duration = clock.time(lambda: cuda.kernel(2.5), repeat=4)
    assert duration == 0.010
    assert cuda.calls == ["synchronize", "kernel", "record", *["kernel"] * 4, "record", "synchronize"]
    assert clock.name == "cuda_event"


def test_cuda_clock_times_regions():
    cuda = FakeCuda()
    clock = CudaClock(cuda, align=lambda: None)
    cuda.calls.clear()
    for _ in range(2):
        with clock.region("compute"):
            cuda.kernel(3.0)
        with clock.region("issue_on_host"):
            time.sleep(0.002)
            cuda.kernel(1e6)
    assert cuda.calls == ["record", "kernel", "record", "kernel"] * 2  # no event where the host is meant
    taken = clock.take_regions()
    assert taken["compute"] == 0.006
    assert 0.004 <= taken["issue_on_host"] < 1000  # what is queued there costs the host nothing
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
