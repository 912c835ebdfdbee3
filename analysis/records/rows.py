"""Turn a record into rows of the combined table: settings, labels, metrics and provenance."""

import contextlib
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from analysis.records import doubts, metrics
from analysis.records.columns import METRICS
from analysis.records.doubts import doubt_of, held_bytes
from analysis.records.metrics import region_medians
from analysis.records.results import DETAILS, NAMES, CaseResult, plain_cells
from benchkit.record.naming import plus_minus
from benchkit.record.record import AgentReport, CaseRecord, Record
from benchkit.statistics.power import difference_of_runs
from benchkit.statistics.summary import summarize

MODEL = "model."
DIMENSIONS = tuple(
    MODEL + name for name in ("d_model", "d_ff", "num_layers", "num_heads", "vocab_size")
)
"""The sizes of a model, which its name shows where models of one name differ. They keep their keys'
prefix because a suite may have keys by the same names, such as num_heads of ring_attention."""
OF_PLACE = re.compile(
    r"(?!TORCH_DISTRIBUTED_DEBUG$)\w*_("
    r"DEVICES|DEVICE_ORDER|HCA|IFNAME|ADDR|COMM_ID|HOST|HOSTID|PORT"
    r"|DIR|DIRECTORY|FILE|HOME|PATH|ROOT|VERSION|DEBUG(_\w+)?|LOG\w*|TRACE\w*|VERBOSE)"
)
"""Variables that choose one of several like devices, interfaces or ports, or say where files and
messages go. They differ between machines and runs, and times do not differ by them."""


def conditions(record: Record) -> dict[str, Any]:
    settings, agents = record.settings, record.agents
    hardware, measure = settings.hardware, settings.measure
    on_cpu = hardware.device == "cpu"
    variables = settings.backend.env.items()
    return {
        "host": "+".join(dict.fromkeys(agent.host for agent in agents)),
        "device_name": join_distinct(agent.cpu for agent in agents)
        if on_cpu
        else gpu_names(record),
        "torch": join_distinct(agent.torch for agent in agents),
        "cuda": join_distinct(agent.cuda for agent in agents),
        "nccl": join_distinct(agent.nccl for agent in agents),
        "driver": None if on_cpu else join_distinct(map(driver_of, agents)),
        "commit": join_distinct(map(commit_of, agents)),
        "kernel": join_distinct(agent.kernel for agent in agents),
        "launched_by": record.launched_by,
        "num_agents": len(agents),
        "start_method": settings.start_method,
        "processes": settings.ranks,
        "threads": str(settings.threads_per_rank),
        "ranks_per_device": hardware.ranks_per_device,
        "full_share": str(hardware.full_share),
        "slowdown": hardware.slowdown,
        "backend_env": " ".join(f"{name}={value}" for name, value in variables),
        "variables": variables_of(agents),
        "seed": settings.seed,
        **vars(measure),
        "profile": str(settings.profile) if settings.profile else None,
        "arm": record.comparison.arm if record.comparison else None,
    }


def provenance(record: Record) -> dict[str, object]:
    clock, model, noise = record.start_clock, record.settings.model, record.noise_floor
    factors = " ".join(f"{factor:.3g}" for factor in record.slowdown.measured or ())
    loads = [agent.load_average[0] for agent in record.agents if agent.load_average]
    return {
        "load": max(loads, default=None),
        **{name: getattr(model, name.removeprefix(MODEL), None) for name in DIMENSIONS},
        "slowed_by": record.slowdown.mechanism,
        "measured_slowdown": factors or None,
        "warning": "; ".join(record.warnings) or None,
        "noise_floor": noise_text(record),
        "identical_runs": difference_of_runs(noise.sigma_run) if noise else None,
        "clock": record.clock,
        "start_clock": clock.estimator if clock else None,
        "start_uncertainty_s": clock.uncertainty_s if clock else None,
        "threads_per_rank": record.threads_per_rank,
        "cores_per_rank": record.cores_per_rank,
        "point_id": record.point_id,
        "started_at": record.started_at,
        "total_s": record.phases_s.get("total"),
        "points_before": record.rank_use.points_before if record.rank_use else None,
        "held_bytes": held_bytes(record),
        "title": record.title,
    }


def noise_text(record: Record) -> str | None:
    """Return how much identical runs differ: "± 4 % at all_reduce 1 MiB (selftest of 2026-11-20)".

    The result is None where no noise floor applied.
    """
    noise = record.noise_floor
    if noise is None:
        return None
    day = ""
    with contextlib.suppress(ValueError, OverflowError):
        ended = datetime.datetime.fromisoformat(record.finished_at or record.started_at)
        day = f" of {(ended - datetime.timedelta(seconds=noise.age_s)).date()}"
    return f"{plus_minus(difference_of_runs(noise.sigma_run))} at {noise.at} (selftest{day})"


def join_distinct(values: Iterable[Any]) -> str | None:
    """Join the values of all agents, without duplicates: "2.13.0 / 2.12.0"; None without any."""
    return " / ".join(dict.fromkeys(str(value) for value in values if value)) or None


def variables_of(agents: Sequence[AgentReport]) -> str | None:
    """Join the variables of all agents that may change times: "NCCL_ALGO=Ring OMP_NUM_THREADS=2".

    Those that agents share appear once.
    """
    of_agents = chain.from_iterable(agent.variables.items() for agent in agents)
    variables = sorted({pair for pair in of_agents if not OF_PLACE.fullmatch(pair[0])})
    return " ".join(map("=".join, variables))


def gpu_names(record: Record) -> str | None:
    """Return the names of the hosts' first GPUs; where hosts list none, of the ranks' GPUs."""
    listed = join_distinct(agent.gpus[0].get("name") for agent in record.agents if agent.gpus)
    return listed or join_distinct(device.name for device in record.rank_devices)


def driver_of(agent: AgentReport) -> str | None:
    """Return the version of the GPUs' driver, which early records only list per GPU."""
    return agent.driver or join_distinct(gpu.get("driver_version") for gpu in agent.gpus)


def commit_of(agent: AgentReport) -> str | None:
    """Return the first 12 digits of the commit; for changed code also "+" and the change's hash."""
    if not agent.git_commit:
        return None
    return agent.git_commit[:12] + (f"+{agent.git_diff_hash}" if agent.git_diff_hash else "")


SHARED_KEYS = frozenset((
    "suite", "seed", "world_size", "threads_per_rank", "start_method", "timeout_s",
    "join_timeout_s", "trust_network", "host_wait_s", "repeat", "max_failures", "on_end",
    "private_network",
    "ranks", "backend", "hardware", "measure", "model", "profile", "explain", "report",
))  # fmt: skip
"""Keys common to all suites. Lists and dictionaries in a suite's own keys become no columns either,
because they select cases, and labels identify these."""
OUTCOMES = ("status", "reason", "failed_rank", "stopped_by", "converged", DETAILS)
OF_FILE = ("path", "run")


class RecordSettings:
    """The shared columns of a record, and the names that no column of its suite may have.

    Attributes:
        settings: what was measured, where and how, as far as that affects the result.
        provenance: where it comes from, except its file and its run.
    """

    def __init__(self, record: Record) -> None:
        shared, condition_cells = shared_settings(record), conditions(record)
        self.provenance = provenance(record)
        self._suite = record.suite
        self._taken = {*shared, *condition_cells, *self.provenance, *OF_FILE, *OUTCOMES, *NAMES}
        suite_keys = {
            name: value
            for name, value in record.config.items()
            if name not in SHARED_KEYS and not isinstance(value, list | dict)
        }
        self.settings: dict[str, object] = shared | self.prefix_taken(suite_keys) | condition_cells

    def prefix_taken(self, cells: Mapping[str, object]) -> dict[str, object]:
        """Prefix those of a suite's keys, or of a case's labels, that are names of other columns.

        The prefix is the suite's name.
        """
        return {
            f"{self._suite}.{name}" if name in self._taken else name: value
            for name, value in cells.items()
        }


def shared_settings(record: Record) -> dict[str, object]:
    shared = record.settings
    return {
        "suite": record.suite,
        "backend": shared.backend.name,
        "device": shared.hardware.device,
        "world_size": record.world_size,
        "model": shared.model.name if shared.model else None,
    }


NOT_ENDED = "measured at this moment, or killed before it could say so"


def derive_cases(record: Record, settings: RecordSettings) -> list[CaseResult]:
    """Derive the result of each case; of a record without cases, one that says how it ended."""
    if not record.cases:
        return [CaseResult(plain_cells(failure(record)), {}, None)]
    slowed_by = record.slowdown.mechanism or ""
    num_hosts = len({agent.host for agent in record.agents})
    groups = metrics.comparison_groups(record.cases)
    medians_s: dict[metrics.ComparisonGroup | None, list[float]] = {None: []}
    for case, group in zip(record.cases, groups, strict=True):
        if group and record.status_of(case) == "ok":
            medians_s.setdefault(group, []).append(metrics.median_of(case))
    results = []
    for case, group in zip(record.cases, groups, strict=True):
        cells = settings.prefix_taken(case.labels) | outcome(case, record)
        cells["contest"] = group and f"{group[0]}, {group[1]} ranks"
        cells["disturbed"] = doubts.describe_disturbance(case, slowed_by, num_hosts) or None
        if cells["status"] == "ok":
            results.append(measured_case(case, record, medians_s[group], cells))
        else:
            results.append(CaseResult(plain_cells(cells), {}, None))
    return results


def failure(record: Record) -> dict[str, object]:
    error = record.error
    return {
        "status": record.status,
        "reason": error.message if error else NOT_ENDED if record.status == "running" else None,
        "failed_rank": error.rank if error else None,
    }


def outcome(case: CaseRecord, record: Record) -> dict[str, object]:
    status = record.status_of(case)
    reason = case.reason if status == case.status else failure(record)["reason"]
    row: dict[str, object] = {
        "is_component": case.is_component,
        "unslowed": case.unslowed,
        "status": status,
        "reason": reason or None,
        "failed_rank": case.rank,
    }
    if case.samples_s:
        row |= {
            "stopped_by": case.stopped_by,
            "converged": case.converged,
            "calls": case.calls_per_sample,
            "steady": case.steady,
            "unchecked": case.unchecked or None,
        }
    return row


def measured_case(
    case: CaseRecord, record: Record, group_medians_s: Sequence[float], cells: dict[str, object]
) -> CaseResult:
    """Derive the result of a measured case.

    Args:
        group_medians_s: of all measured cases of its comparison group.
    """
    samples = case.samples
    summary: dict[str, Any] = {**summarize(samples)}
    summary |= metrics.comparison_metrics(case, record.cases, group_medians_s)
    summary |= doubts.noise_metrics(samples)
    summary |= doubts.interleaving_metrics(case, record, summary["median_s"])
    summary |= doubts.first_call_metrics(case, record.settings.measure.mode)
    summary |= doubts.reuse_metrics(case, record, summary["median_s"])
    values = {metric.name: metric.value(case, summary) for metric in METRICS}
    judged = {
        "estimator": samples.estimator,
        "doubt": doubt_of(values, case, record),
    }
    details = plain_cells(case.details | region_medians(case))
    has_baseline = any(other.baseline is not None for other in record.cases)
    rounds = samples.block_medians.tobytes() if has_baseline else b""
    return CaseResult(plain_cells(cells | judged), details, list(values.values()), rounds)
