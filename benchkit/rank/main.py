"""One rank's part in a point: open the session, build the cases, measure them, report."""

from benchkit.api.case import noop
from benchkit.api.regions import use_marker
from benchkit.rank.assignment import Assignment, RankReport
from benchkit.rank.calibration import calibrate
from benchkit.rank.devices import GpuWatch, set_up_torch
from benchkit.rank.job import build_cases
from benchkit.rank.reporter import Reporter, case_warnings
from benchkit.rank.run_cases import RankRun, Stopwatch, ignore, run_cases
from benchkit.rank.sampling_hooks import flush_profiler
from benchkit.rank.session import forget_point, open_session
from benchkit.rank.traces import record_traces
from benchkit.streams import protect_streams
from launch.ranks import entry


def run_rank(assignment: Assignment) -> RankReport | None:
    """Run one point in one rank; rank 0 returns its report to the agent, others None.

    The point's memory is freed before the report: fresh ranks may measure beside this one.
    """
    report = run_point(assignment)
    forget_point()
    return report


def run_point(assignment: Assignment) -> RankReport | None:
    protect_streams()
    config = assignment.config
    is_first = assignment.place.rank == 0
    stopwatch = Stopwatch(report_phase=entry.send_note if is_first else ignore)

    stopwatch.enter("init")
    set_up_torch(assignment.threads, config.backend.env)
    session = open_session(assignment)
    rank_use = session.begin_point()
    watch = GpuWatch(session.devices)
    clock = session.make_clock(assignment.offset, watch.while_busy)

    prober = session.make_prober(assignment, clock)
    slowdown = None
    if assignment.is_slowed:
        stopwatch.enter("calibrate")
        slowdown = calibrate(prober, assignment.slowdown, session.device)
    stopwatch.enter("build")
    cases = build_cases(assignment, session, prober)

    run = RankRun(config, clock, session.group, session.controller, watch, stopwatch)
    reporter = Reporter(assignment, run, cases, prober, slowdown, rank_use)
    with use_marker(clock.region), flush_profiler(session.device.type):
        records = run_cases(run, cases, reporter.store if is_first else noop)
    if config.profile is True and assignment.only is None:
        stopwatch.enter("profile")
        pairs = zip(cases, records, strict=True)
        ok_cases = [case for case, record in pairs if record.status == "ok"]
        record_traces(ok_cases, session, assignment)
    stopwatch.enter("exit")
    differences = session.differences_from_plan(assignment)
    # Nothing of the point runs on any rank after this barrier. Destroying a gloo group before the
    # process ends would take another 20 ms.
    session.group.barrier()
    if not is_first:
        return None
    return reporter.report(records, [*case_warnings(config, records), *differences])
