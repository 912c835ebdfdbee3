from benchkit.api.case import Case
from benchkit.api.regions import QUEUEING, region, use_marker
from benchkit.measure.clocks import HostClock
from benchkit.measure.timer import measure

from tests.support.fakes import FakeCuda, cuda_clock, plan


def test_region_is_noop_without_marker():
    seen = []
    clock = HostClock()
    with region("a"):
        seen.append("a")
    with use_marker(clock.region):
        with region("b"):
            pass
        with region("b"):
            pass
    with region("c"):
        pass
    assert list(clock.take_regions()) == ["b"]
    assert clock.take_regions() == {}
    assert seen == ["a"]


def test_cuda_clock_times_regions_by_events():
    cuda = FakeCuda()
    clock = cuda_clock(cuda)

    def step():
        with clock.region("compute"):
            cuda.kernel(2.0)
        with clock.region("wait"):
            cuda.kernel(1.0)

    clock.time(step, 3)
    taken = clock.take_regions()
    assert taken.pop(QUEUEING) > 0
    assert taken == {"compute": 0.006, "wait": 0.003}
    assert clock.take_regions() == {}


def test_regions_are_recorded_per_iteration():
    told = []
    clock = HostClock()

    def step():
        with region("compute"):
            sum(range(1000))

    case = Case(step=step, regions=("compute", "never"), observe=told.append)
    with use_marker(clock.region):
        [result] = measure(
            [case],
            plan(max_iterations=4, warmup_iterations=1, min_blocks=1),
            clock=clock,
            barrier=lambda: None,
            all_gather=lambda values: [values, [2 * value for value in values]],
            seed=0,
        )
    assert {name: [len(row) for row in rows] for name, rows in result.regions_s.items()} == {
        "compute": [4, 4],
        "never": [4, 4],
    }
    mine, other = result.regions_s["compute"]
    assert all(0 < spent <= sample for spent, sample in zip(mine, result.samples_s[0], strict=True))
    assert other == [2 * spent for spent in mine]
    assert result.regions_s["never"] == [[0.0] * 4] * 2
    assert [regions["compute"] for regions in told[1:]] == mine  # the first was the warm-up's
