"""The record of one point: what ran, where, how it ended and every sample."""

import functools
import statistics
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from benchkit.record.naming import escape_unprintable
from benchkit.statistics import SLOWEST_RANK

PlainConfig = dict[str, Any]  # a resolved configuration, groups and all

if TYPE_CHECKING:
    from benchkit.statistics.intervals import Array
    from benchkit.statistics.samples import Samples

LONGEST_S = 1e9  # a longer time is no measurement
Count = Annotated[int, Meta(ge=1, le=10**12)]
NumRanks = Annotated[int, Meta(ge=1, le=10**6)]
RankNumber = Annotated[int, Meta(ge=0, le=10**6)]
RepetitionNumber = Annotated[int, Meta(ge=0, le=10**6)]
Version = Annotated[int, Meta(ge=0, le=10**6)]  # of a file's format
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
NumEarlier = Annotated[int, Meta(ge=0, le=10**6)]
Position = Annotated[int, Meta(ge=0, le=10**6)]  # such as that of a case in its job
Seconds = Annotated[float, Meta(ge=0, le=LONGEST_S)]
Offset = Annotated[float, Meta(ge=-LONGEST_S, le=LONGEST_S)]  # in seconds, of either sign
NumBytes = Annotated[int, Meta(ge=0, le=10**18)]
Amount = Annotated[float, Meta(ge=0, le=1e30)]
SignedNumber = Annotated[float, Meta(ge=-1e18, le=1e18)]
Rows = list[list[Seconds]]  # seconds: [rank][iteration]


Labels = Mapping[str, str | int | float | None]  # what sets a case apart inside its job


@dataclass(frozen=True)
class ComponentPositions:
    """Positions in their job of the cases that time another case's components."""

    computation: Position | None = None
    communication: Position | None = None


@dataclass(kw_only=True)
class CaseDescription:
    """What a suite says of a case, and how the case ended.

    `benchkit.api.case` says what a suite sets; docs/record.md explains each key.

    Attributes:
        status: ok, invalid, skipped, unavailable, oom, or timeout without a sample.
        reason: why it is not ok; "" if it is.
        rank: the first rank that said so.
        baseline: position of the case to compare with.
        unchecked: what its timed calls computed without a check; "" if nothing.
        checks: at random places among its samples; one more follows them. None if none was tried.
    """

    labels: dict[str, str | bool | int | float | None]
    status: str
    reason: str = ""
    rank: RankNumber | None = None
    payload_bytes: NumBytes | None = None
    bus_factor: Amount | None = None
    useful_flops: Amount | None = None
    executed_flops: Amount | None = None
    wire_bytes: NumBytes | None = None
    baseline: Position | None = None
    is_component: bool = False
    unslowed: bool = False
    components: ComponentPositions = ComponentPositions()
    details: dict[str, Any] = field(default_factory=dict)
    unchecked: str = ""
    checks: NumEarlier | None = None


@dataclass(kw_only=True)
class CaseSamples:
    """The raw samples of one case on all ranks, and how they were taken.

    An iteration is one sample on every rank: all ranks pass a barrier and make the same calls.

    Attributes:
        ranks: number of ranks that take part, the first ones; None for all.
        estimator: what the time of an iteration is, see `Samples.times`.
        calls_per_sample: calls back to back in one sample; the sample is their mean.
        blocks: iterations of each block, in order. Between blocks other cases had their turns.
        warmup_s: set aside, per call: [rank][iteration].
        steady: the warm-up went on until calls got no faster; None if not tried.
        samples_s: per call: [rank][iteration]. None is dropped.
        start_offsets_s: start of each rank's sample after the first rank's start of the same
            iteration: [rank][iteration]; None if the clock is not the host's.
        regions_s: by region, per call: [rank][iteration].
        disturbance: by counter in `benchkit.measure.disturbance`, its growth during the blocks:
            [rank]. Also `lowest_ghz` and `highest_ghz` of `core_ghz()` after the blocks: [rank].
        elapsed_s: with resets and barriers, on the slowest rank.
        stopped_by: target_rel_ci, max_iterations, max_seconds, or timeout of the point; "" until
            then.
        converged: the interval met `target_rel_ci`; None without a target.
    """

    ranks: NumRanks | None = None
    estimator: str = SLOWEST_RANK
    calls_per_sample: Count = 1
    blocks: list[Count] = field(default_factory=list)
    warmup_s: Rows = field(default_factory=list)
    steady: bool | None = None
    samples_s: Rows = field(default_factory=list)
    start_offsets_s: list[list[Offset]] | None = None
    regions_s: dict[str, Rows] = field(default_factory=dict)
    disturbance: dict[str, list[SignedNumber]] = field(default_factory=dict)
    elapsed_s: Seconds = 0.0
    stopped_by: str = ""
    converged: bool | None = None

    def to_samples(self) -> "Samples":
        """Return the samples so far of the ranks that take part.

        Raises:
            ValueError: rows have different lengths.
        """
        from benchkit.statistics.samples import Samples  # numpy, which agents lack

        starts = self.start_offsets_s
        return Samples(
            calls_s=as_array(self.samples_s[: self.ranks]),
            starts_s=None if starts is None else as_array(starts[: self.ranks]),
            calls_per_sample=self.calls_per_sample,
            estimator=self.estimator,
            blocks=self.blocks,
        )


@dataclass(kw_only=True)
class CaseRecord(CaseSamples, CaseDescription):
    """A case as the record of its point holds it: the description, then the samples, if any.

    Attributes:
        start_uncertainty_s: how wrong its starts may be between hosts, in seconds.
    """

    start_uncertainty_s: Seconds = 0.0

    @property
    def num_ranks(self) -> int:
        return self.ranks or len(self.samples_s)

    @property
    def typical_s(self) -> float:
        """Median of the slowest rank's times, without numpy, which agents lack."""
        samples_s = self.samples_s[: self.ranks]
        return float(statistics.median(map(max, zip(*samples_s, strict=True))))

    @cached_property
    def samples(self) -> "Samples":
        """Its samples, with their starts only where these are known well enough."""
        return self.to_samples().drop_uncertain_starts(self.start_uncertainty_s)


def as_array(rows: Rows) -> "Array":
    """Return rows as an array: [row][column]; raise ValueError if their lengths differ.

    Packing rows takes half as long as numpy takes to read lists of lists.
    """
    import numpy as np  # Agents have records too, and load no numpy.

    length = len(rows[0]) if rows else 0
    pack = struct.Struct(f"{length}d").pack
    try:
        packed = b"".join(pack(*row) for row in rows)
    except struct.error:
        raise ValueError("rows of different lengths") from None
    return np.frombuffer(packed).reshape(len(rows), length)


PlainText = Annotated[str, Meta(pattern=r"^[ -~]{1,60}\Z")]
"""Printable ASCII, which no terminal takes for a command."""


GPU_READINGS = ("sm_mhz", "mem_mhz", "power_w", "temperature_c")
"""What one reading of a GPU holds; a case has one before and one after it."""
BUSY_MHZ, BUSY_W = "gpu_sm_mhz_busy", "gpu_power_w_busy"
"""The lowest clock and the highest power while the GPU worked on a case."""
CLOCK_REASONS = "gpu_clock_reasons"
"""The bits of nvmlClocksEventReasons (nvml.h) that were set during or after any turn of a case."""
GPU_FIELDS = (
    *(f"gpu_{name}_before" for name in GPU_READINGS),
    *(f"gpu_{name}_after" for name in GPU_READINGS),
    BUSY_MHZ,
    BUSY_W,
    CLOCK_REASONS,
)
"""Names among the disturbances of a case: [rank]."""
CLOCK_SETTING = 0x02
"""The bit for clocks that are limited by a setting: application clocks or locked clocks."""
THROTTLE_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost group",
    0x20: "temperature (driver)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""The bits of what else holds clocks back."""


@dataclass(frozen=True, kw_only=True)
class NoiseFloor:
    """How much identical runs differ on the machine of a point, found by a selftest.

    Attributes:
        age_s: of the selftest when the point ended.
        sigma_run: standard deviation of the logarithms of the medians of identical runs.
        at: what ran: the selftest's size whose time is nearest.
    """

    id: PlainText
    age_s: Seconds
    sigma_run: Amount
    at: PlainText


@dataclass(frozen=True, kw_only=True)
class ComparisonRun:
    """The comparison of arms that a point was run for (benchkit/compare).

    Attributes:
        arm: as it was typed.
        pair: number of the round in the order of runs, from 1. Both runs of an A/A pair have the
            baseline as their arm.
        position: of the run in its round, from 0.
    """

    id: str
    arm: str
    pair: Count
    position: Position


TorchSettings = dict[str, bool | int | str | None]  # None where torch does not tell


@dataclass(frozen=True, kw_only=True)
class RankDevice:
    """Where one rank computes; None if unknown, or without a GPU.

    Attributes:
        device: as torch names it, such as "cuda:0".
        numa_nodes: NUMA nodes of the cores that the rank may use; `numa_node` is its GPU's.
        uuid: of its GPU, or of the MIG instance.
        multiprocessors: that it may use, fewer with a share of the GPU by MPS.
        nccl: version of the NCCL, or RCCL, that its torch has loaded.
    """

    device: str
    numa_nodes: list[Position] = field(default_factory=list)
    name: str | None = None
    uuid: str | None = None
    pci: str | None = None
    numa_node: Position | None = None
    multiprocessors: Count | None = None
    memory_bytes: NumBytes | None = None
    nccl: str | None = None


VERSIONS = (
    "torch", "cuda", "hip", "nccl", "driver", "kernel", "python", "git_commit", "git_diff_hash",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HostReport:
    """What can differ between the hosts of one run; None if unknown.

    Attributes:
        available_cores: cores that the agent may use.
        gpus: what nvidia-smi lists of each GPU, by nvidia-smi's names, and its `numa_node`.
        cuda, hip: versions that torch is built for.
        nccl: version of the NCCL, or RCCL, that torch loads.
        git_commit: of the checkout that benchkit lies in.
        git_diff_hash: 12 hexadecimal digits of the hash of its uncommitted changes.
        load_average: over 1, 5 and 15 minutes.
        variables: environment of the agent that libraries of GPUs, communication and threads read.
    """

    host: str
    cpu: str | None = None
    available_cores: Count | None = None
    gpus: list[dict[str, str]] = field(default_factory=list)
    torch: str | None = None
    cuda: str | None = None
    hip: str | None = None
    nccl: str | None = None
    driver: str | None = None
    kernel: str | None = None
    python: str | None = None
    git_commit: str | None = None
    git_diff_hash: str | None = None
    load_average: list[SignedNumber] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AgentReport(HostReport):
    ranks: list[RankNumber] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Environment(HostReport):
    """The host of agent 0 at the start of a point.

    Attributes:
        platform: as Python's `platform.platform()` names it.
        cpu_quota: cores' worth of time that the control group allows; None without a quota.
        governor: frequency governor of core 0.
        command: the command line, with the program's name alone.
        topology: how its GPUs and network cards are connected, as `nvidia-smi topo -m` prints it.
    """

    benchkit: str | None = None
    platform: str | None = None
    cores: Count | None = None
    cpu_quota: Amount | None = None
    governor: str | None = None
    git_dirty: bool | None = None
    command: list[str] = field(default_factory=list)
    available_bytes: Amount | None = None
    topology: str | None = None


@dataclass(frozen=True, kw_only=True)
class RankUse:
    """What the ranks of a point had done and held when it began.

    Attributes:
        points_before: points that the same processes had measured; 0 for fresh ones.
        host_bytes: resident memory, 0 where the kernel does not tell: [rank].
        device_bytes: GPU memory held through torch, 0 on a CPU: [rank].
    """

    points_before: NumEarlier
    host_bytes: list[NumBytes]
    device_bytes: list[NumBytes]


Number = int | float
FIRST_CALLS = "cold"  # the mode of `measure` that times the first calls of fresh ranks


@dataclass(frozen=True, kw_only=True)
class BackendSettings:
    name: str
    env: dict[str, str | Number | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HardwareSettings:
    """What ranks ran on.

    Attributes:
        slowdown: how many times slower the last rank was to be, or each rank.
        full_share: percent of a GPU of a rank at full speed; "auto" for an equal part.
    """

    device: str
    ranks_per_device: Count
    slowdown: Number | list[Number] = 1
    full_share: Number | str = "auto"


@dataclass(frozen=True, kw_only=True)
class MeasureSettings:
    """How samples were taken, and until when; None where a record does not say it."""

    mode: str
    calls_per_sample: int | str
    warmup_iterations: int
    max_warmup_seconds: Amount | None = None
    target_rel_ci: Amount | None = None
    max_iterations: Count | None = None
    max_seconds: Amount | None = None
    min_blocks: Count | None = None
    block_seconds: Amount | None = None
    probe_seconds: Amount | None = None
    cold_l2: bool = False


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model and its sizes; None if the model has no such size."""

    name: str
    d_model: Amount | None = None
    d_ff: Amount | None = None
    num_layers: Amount | None = None
    num_heads: Amount | None = None
    vocab_size: Amount | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Keys of `benchkit.api.keys.RunConfig` that tables show; docs/record.md says more."""

    seed: int
    threads_per_rank: int | str
    start_method: str
    backend: BackendSettings
    hardware: HardwareSettings
    measure: MeasureSettings
    model: ModelSettings | None = None
    repeat: Count = 1
    ranks: str = "auto"
    explain: bool = False
    profile: bool | str = False


@dataclass(frozen=True)
class Configured:
    """Messages about a value in `config` begin with the name of this key."""

    config: Settings


# What each version changed. A new key with a default keeps the version: a record without it is
# read as if it had the default. Versions 1 and 2 were never released and are not read.
# 1: a case has a `name`, by which others refer to it in `against` and `parts`. All its blocks have
#    one length, `block_iterations`.
# 2: `blocks`, the length of each block.
# 3: positions of cases in place of names: `baseline`, `components`; `is_component` in place of
#    `bound`; labels are text, numbers or null; `agents` describe every host; `title`, `launched_by`
#    and `cores_per_rank`. All values have types and ranges.
SCHEMA_VERSION = 3


@dataclass(frozen=True, kw_only=True)
class ErrorReport:
    """Why a point is not ok.

    Attributes:
        message: of the exception, or what happened.
        rank: that failed; None if no single rank is to blame.
        log: file beside the record with the output of the rank.
    """

    message: str
    rank: RankNumber | None = None
    host: str = ""
    type: str | None = None
    signal: Annotated[int, Meta(ge=1, le=128)] | None = None
    traceback: str | None = None
    log: str | None = None


@dataclass(frozen=True, kw_only=True)
class SlowdownReport:
    """How much slower ranks were: [rank], 1 at full speed.

    Attributes:
        mechanism: what slowed ranks down, joined by "+"; None if nothing did.
        measured: None if there is nothing to measure against.
        multiprocessors: of its GPU that each rank has a share of; None without shares (MPS).
    """

    asked: list[SignedNumber] = field(default_factory=list)
    mechanism: str | None = None
    measured: list[SignedNumber] | None = None
    multiprocessors: list[Count] | None = None


@dataclass(frozen=True)
class StartClock:
    """How starts on several hosts are compared.

    Attributes:
        estimator: shared_clock or min_rtt_line (launch/agents/group.py).
        uncertainty_s: how wrong the starts may be, in seconds.
    """

    estimator: str
    uncertainty_s: Seconds


def on_clock(cases: Sequence[CaseRecord], clock: StartClock | None) -> list[CaseRecord]:
    """Return cases that know how wrong their starts may be, as the clock of their ranks says."""
    if not clock or not clock.uncertainty_s:
        return list(cases)
    return [
        case if case.start_uncertainty_s else replace(case, start_uncertainty_s=clock.uncertainty_s)
        for case in cases
    ]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What rank 0 tells of a point, by the record's own names."""

    cases: list[CaseRecord] = field(default_factory=list)
    clock: str | None = None
    slowdown: SlowdownReport | None = None
    warnings: list[str] = field(default_factory=list)
    rank_devices: list[RankDevice] = field(default_factory=list)
    torch_settings: TorchSettings = field(default_factory=dict)
    rank_use: RankUse | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything about one point; docs/record.md explains each key."""

    schema_version: Version = SCHEMA_VERSION
    point_id: str
    suite: str
    title: str
    status: str
    error: ErrorReport | None = None
    config: PlainConfig
    overrides: list[str] = field(default_factory=list)
    attempt: Count = 1
    repetition: RepetitionNumber = 0
    resumed_with: dict[str, list[str]] = field(default_factory=dict)
    comparison: ComparisonRun | None = None
    world_size: NumRanks
    threads_per_rank: Count
    cores_per_rank: Amount
    launched_by: str
    agents: list[AgentReport]
    rank_devices: list[RankDevice] = field(default_factory=list)
    torch_settings: TorchSettings = field(default_factory=dict)
    slowdown: SlowdownReport = SlowdownReport()
    warnings: list[str] = field(default_factory=list)
    clock: str | None = None
    start_clock: StartClock | None = None
    private_network: bool | None = None
    started_at: str
    finished_at: str | None = None
    phases_s: dict[str, Seconds] = field(default_factory=dict)
    environment: Environment
    noise_floor: NoiseFloor | None = None
    cases: list[CaseRecord] = field(default_factory=list)
    alone: list[CaseRecord] = field(default_factory=list)
    fresh: list[CaseRecord] = field(default_factory=list)
    rank_use: RankUse | None = None

    def __post_init__(self) -> None:
        """Tell each case how wrong its starts may be, as the record's clock says.

        Raises:
            ValueError: a reference to a case that does not exist.
        """
        for cases in (self.cases, self.alone, self.fresh):
            cases[:] = on_clock(cases, self.start_clock)
        for position, case in enumerate(self.cases):
            components = case.components
            for other in (case.baseline, components.computation, components.communication):
                if other is not None and other >= len(self.cases):
                    raise ValueError(f"cases[{position}] refers to case {other}, which is missing")

    @functools.cached_property
    def settings(self) -> Settings:
        """The typed part of `config`; raise ValueError for a missing key or a wrong type."""
        return msgspec.convert({"config": self.config}, Configured).config

    def status_of(self, case: CaseRecord) -> str:
        """Return how a case ended: as its point, unless some case is why that is not ok.

        A point that timed out keeps the cases that it measured.
        """
        if self.status in ("ok", TIMEOUT) or any(each.status == self.status for each in self.cases):
            return case.status
        return self.status

    def to_json(self) -> bytes:
        """Return the file's content; raise TypeError or ValueError for what JSON lacks."""
        return msgspec.json.encode(self)


Kind = TypeVar("Kind")
BEGINNING = b'{"schema_version":%d,' % SCHEMA_VERSION
"""Of a record as `Record.to_json` writes it; it spares a pass over the file for its version."""


class Header(msgspec.Struct):
    schema_version: int


def from_json(content: bytes) -> Record:
    """Return the record in a file's content; raise ValueError with what is wrong, and where."""
    try:
        if not content.startswith(BEGINNING):
            require_version(content)
        found = decode(content, Record)
        _ = found.settings  # its values are part of what is read
        return found
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"not a whole record ({type(error).__name__}: {error})") from None


def decode(content: bytes, kind: type[Kind]) -> Kind:
    """Return JSON as an object of a type, all of its text printable.

    Files come from anywhere, and what they say reaches terminals, tables and pages.
    """
    try:
        found = msgspec.json.decode(content, type=kind)
        if content.isascii() and b"\\" not in content and b"\x7f" not in content:
            return found  # as in most files
        return msgspec.convert(with_printable_text(msgspec.json.decode(content)), kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not readable as JSON ({error})") from None
    except RecursionError:
        raise ValueError("not readable as JSON (nested too deeply)") from None


def with_printable_text(value: Any) -> Any:
    """Return decoded JSON whose texts are printable; line breaks and tabs stay."""
    if isinstance(value, str):
        return escape_unprintable(value)
    if isinstance(value, list):
        # Most values are samples, and a call for each of them would take as long as all else.
        return [each if type(each) is float else with_printable_text(each) for each in value]
    if isinstance(value, dict):
        return {escape_unprintable(name): with_printable_text(each) for name, each in value.items()}
    return value


def require_version(content: bytes) -> None:
    try:
        version = decode(content, Header).schema_version
    except msgspec.ValidationError:
        raise ValueError("not a benchkit record (no schema_version)") from None
    if version != SCHEMA_VERSION:
        raise ValueError(f"record version {version}, this benchkit reads {SCHEMA_VERSION}")


TIMEOUT = "timeout"
STATUSES = (
    "running",      # the agent works on it, or was killed before it could store another status
    "ok",
    "invalid",      # a wrong result
    "oom",          # out of memory
    TIMEOUT,
    "crash",        # a rank died by a signal
    "error",        # a rank raised an exception
    "unavailable",  # this machine has no such backend or device
    "skipped",      # known before the run not to fit
    "interrupted",  # by Ctrl-C or SIGTERM
    "preempted",    # by Slurm; its job is to start again
    "cancelled",    # by scancel
)  # fmt: skip
UNFINISHED = ("running", "interrupted", "preempted", "cancelled")
"""Statuses of a point that was cut off; it runs again with its job, or when the sweep is
resumed."""
FINAL = tuple(status for status in STATUSES if status not in ("running", "preempted", "cancelled"))
"""Statuses that a submitted point keeps until the sweep is resumed."""
HARMLESS = ("ok", "unavailable", "skipped")  # do not make a sweep fail
