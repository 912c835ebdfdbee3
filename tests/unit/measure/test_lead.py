from types import SimpleNamespace

import pytest
from benchkit.api.case import Case
from benchkit.api.details import QUEUEING
from benchkit.measure.lead import LONGEST_S, MARGIN, SLACK_S, Lead
from benchkit.measure.timer import measure

from tests.support.fakes import FakeCuda, alone, cuda_clock, plan


def test_lead_is_longer_than_queueing():
    lead = Lead()
    lead.learn([0.001, 0.5, 0.001])
    assert lead.seconds == pytest.approx(MARGIN * 0.001 + SLACK_S)
    lead.learn([0.001, 0.5, 0.002])
    assert lead.seconds == pytest.approx(MARGIN * 0.001 + SLACK_S)  # one sample was held up by chance


def test_lead_is_capped():
    lead = Lead()
    lead.learn([0.5])
    assert lead.seconds == LONGEST_S


def test_call_that_waits_for_device_has_no_lead():
    lead = Lead()
    lead.learn([0.001])
    lead.learn([0.001 + lead.seconds])
    assert lead.seconds == 0.0
    lead.learn([0.001])
    assert lead.seconds == 0.0


class Recorder:
    """Wraps a clock and keeps the leads that are asked for."""

    def __init__(self, clock):
        self.clock, self.leads = clock, []

    def __getattr__(self, name):
        return getattr(self.clock, name)

    def time(self, call, repeat, lead_s=0.0):
        self.leads.append(lead_s)
        return self.clock.time(call, repeat, lead_s)


@pytest.mark.parametrize(("warm_up", "without"), [(2, 2), (0, 1)])
def test_samples_after_warmup_have_lead(warm_up, without, monkeypatch):
    """Another rank, played by the exchange, queues ten times as long: all ranks have its lead."""
    cuda, host = FakeCuda(), SimpleNamespace(seconds=0.0)
    host.perf_counter = lambda: host.seconds
    monkeypatch.setattr("benchkit.measure.cuda_clock.time", host)

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
        exchange=lambda values: [values, [10 * value for value in values]],
        seed=0,
    )
    assert clock.leads[:without] == [0.0] * without
    assert clock.leads[without:] == pytest.approx([MARGIN * 10 * 3 * 1e-4 + SLACK_S] * (5 + warm_up - without))
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
    [result] = measure([case], plan(max_iterations=2), clock=clock, barrier=lambda: None, exchange=alone, seed=0)
    assert result.regions_s["compute"] == [[0.0] * 2]


@pytest.mark.parametrize(("mode", "on_host"), [("cold", False), ("loop", True)])
def test_host_times_its_own_work(mode, on_host, monkeypatch):
    """Behind a lead, or between two events, work of the host takes no time."""
    cuda, host = FakeCuda(), SimpleNamespace(seconds=0.0)
    host.perf_counter = lambda: host.seconds
    monkeypatch.setattr("benchkit.measure.cuda_clock.time", host)

    def step():
        host.seconds += 0.003

    clock = Recorder(cuda_clock(cuda))
    config = plan(warmup_iterations=0 if mode == "cold" else 2, max_iterations=5, mode=mode, calls_per_sample=1)
    case = Case(step=step, on_host=on_host)
    [result] = measure([case], config, clock=clock, barrier=lambda: None, exchange=alone, seed=0)
    assert set(clock.leads) == {None}
    assert result.samples_s == [pytest.approx([0.003] * 5)]
