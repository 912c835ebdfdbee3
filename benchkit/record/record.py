"""The record of one point: configuration, environment, outcome and all samples."""

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


Labels = Mapping[str, str | int | float | None]  # distinguish a case inside its job


@dataclass(frozen=True)
class ComponentPositions:
    """Positions, in the job, of the cases that time another case's components."""

    computation: Position | None = None
    communication: Position | None = None


@dataclass(kw_only=True)
class CaseDescription:
    """A suite's description of a case, and its outcome.

    `benchkit.api.case` documents the attributes that a suite sets; docs/record.md explains each
    key.

    Attributes:
        status: ok, invalid, skipped, unavailable, oom, or timeout without a sample.
        reason: why it is not ok; "" if it is.
        rank: first rank with that reason.
        baseline: position of the case to compare with.
        unchecked: unchecked part of its timed calls; "" for none.
        checks: number of checks at random positions among its samples; one more follows the
            samples. None if checks were not scheduled.
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
        ranks: number of participating ranks, the first ones; None for all.
        estimator: definition of the time of an iteration, see `Samples.times`.
        calls_per_sample: consecutive calls in one sample; the sample is their mean.
        blocks: iterations of each block, in order. Between blocks other cases were timed.
        warmup_s: seconds per call in the warm-up: [rank][iteration].
        steady: whether the warm-up went on until times were steady; None if not tried.
        samples_s: seconds per call: [rank][iteration]. No sample is dropped.
        start_offsets_s: seconds from the first rank's start of the same iteration to this rank's:
            [rank][iteration]; None if the clock is not the host's.
        regions_s: seconds per call in each region: [rank][iteration].
        disturbance: growth of each counter in `benchkit.measure.disturbance` during the blocks:
            [rank]. Also `lowest_ghz` and `highest_ghz` of `core_ghz()` after the blocks: [rank].
        elapsed_s: seconds with resets and barriers, on the slowest rank.
        stopped_by: target_rel_ci, max_iterations, max_seconds, or timeout of the point; "" until
            then.
        converged: whether the interval met `target_rel_ci`; None without a target.
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
        """Return the samples so far of the participating ranks.

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
    """A case in the record of its point: the description, then the samples, if any.

    Attributes:
        start_uncertainty_s: error bound of its starts between hosts, in seconds.
    """

    start_uncertainty_s: Seconds = 0.0

    @property
    def num_ranks(self) -> int:
        return self.ranks or len(self.samples_s)

    @property
    def typical_s(self) -> float:
        """Median of the slowest rank's times in seconds, without numpy, which agents lack."""
        samples_s = self.samples_s[: self.ranks]
        return float(statistics.median(map(max, zip(*samples_s, strict=True))))

    @cached_property
    def samples(self) -> "Samples":
        """The samples, without their starts if these are too uncertain."""
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
"""Printable ASCII, without control sequences of terminals."""


GPU_READINGS = ("sm_mhz", "mem_mhz", "power_w", "temperature_c")
"""Fields of one reading of a GPU; a case has one before and one after it."""
BUSY_MHZ, BUSY_W = "gpu_sm_mhz_busy", "gpu_power_w_busy"
"""Lowest clock and highest power while the GPU worked on a case."""
CLOCK_REASONS = "gpu_clock_reasons"
"""Bits of nvmlClocksEventReasons (nvml.h) that were set during or after any block of a case."""
GPU_FIELDS = (
    *(f"gpu_{name}_before" for name in GPU_READINGS),
    *(f"gpu_{name}_after" for name in GPU_READINGS),
    BUSY_MHZ,
    BUSY_W,
    CLOCK_REASONS,
)
"""Names among the disturbances of a case: [rank]."""
CLOCK_SETTING = 0x02
"""Bit of clocks limited by a setting: application clocks or locked clocks."""
THROTTLE_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost group",
    0x20: "temperature (driver)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""Bits of other limits of the clocks."""


@dataclass(frozen=True, kw_only=True)
class NoiseFloor:
    """How much identical runs differ on the machine of a point, by a selftest.

    Attributes:
        age_s: age of the selftest when the point ended.
        sigma_run: standard deviation of the logarithms of the medians of identical runs.
        at: the case of the selftest with the nearest time.
    """

    id: PlainText
    age_s: Seconds
    sigma_run: Amount
    at: PlainText


@dataclass(frozen=True, kw_only=True)
class ComparisonRun:
    """The place of a run in a comparison of arms (benchkit/compare).

    Attributes:
        id: identifier of the comparison.
        arm: arm as typed.
        pair: number of the round in the order of runs, from 1. Both runs of an A/A pair have the
            baseline as their arm.
        position: position of the run in its round, from 0.
    """

    id: str
    arm: str
    pair: Count
    position: Position


TorchSettings = dict[str, bool | int | str | None]  # None where torch does not report it


@dataclass(frozen=True, kw_only=True)
class RankDevice:
    """The device of one rank; None if unknown, or without a GPU.

    Attributes:
        device: torch's name of the device, such as "cuda:0".
        numa_nodes: NUMA nodes of the cores that the rank may use; `numa_node` is its GPU's.
        uuid: UUID of its GPU, or of the MIG instance.
        multiprocessors: number that it may use, fewer with an MPS share of the GPU.
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
    """Properties that may differ between the hosts of one run; None if unknown.

    Attributes:
        available_cores: number of cores that the agent may use.
        gpus: fields of each GPU by nvidia-smi's names, and its `numa_node`.
        cuda, hip: versions that torch is built for.
        nccl: version of the NCCL, or RCCL, that torch loads.
        git_commit: commit of benchkit's checkout.
        git_diff_hash: 12 hexadecimal digits of the hash of its uncommitted changes.
        load_average: load averages over 1, 5 and 15 minutes.
        variables: environment variables of the agent that are read by libraries of GPUs,
            communication and threads.
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
        platform: value of Python's `platform.platform()`.
        cpu_quota: CPU quota of the control group, in cores; None without a quota.
        governor: frequency governor of core 0.
        command: the command line, without the path of the program.
        topology: connections of its GPUs and network cards, as printed by `nvidia-smi topo -m`.
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
    """Earlier points and memory in use of the ranks when a point began.

    Attributes:
        points_before: number of points that the same processes had measured; 0 for fresh ranks.
        host_bytes: resident memory, 0 if unknown: [rank].
        device_bytes: GPU memory allocated through torch, 0 on a CPU: [rank].
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
    """Hardware settings of the ranks.

    Attributes:
        slowdown: target slowdown factor of the last rank, or of each rank.
        full_share: GPU share in percent of a rank at full speed; "auto" for an equal part.
    """

    device: str
    ranks_per_device: Count
    slowdown: Number | list[Number] = 1
    full_share: Number | str = "auto"


@dataclass(frozen=True, kw_only=True)
class MeasureSettings:
    """Settings of sampling and of its limits; None if absent from a record."""

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
    """Keys of `benchkit.api.keys.RunConfig` that tables show; see docs/record.md."""

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
    """Wrapper, so that error messages about a value begin with `config`."""

    config: Settings


# Changes of each version. A new key with a default does not change the version: a record without
# it is read with the default. Versions 1 and 2 were never released and are not read.
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
        message: message of the exception, or a description of the event.
        rank: the failed rank; None if no single rank is to blame.
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
    """Slowdown factors of the ranks: [rank], 1 at full speed.

    Attributes:
        asked: target factors.
        mechanism: throttle mechanisms, joined by "+"; None without.
        measured: measured factors; None without a reference.
        multiprocessors: number in each rank's MPS share; None without shares.
    """

    asked: list[SignedNumber] = field(default_factory=list)
    mechanism: str | None = None
    measured: list[SignedNumber] | None = None
    multiprocessors: list[Count] | None = None


@dataclass(frozen=True)
class StartClock:
    """The common clock of starts on several hosts.

    Attributes:
        estimator: shared_clock or min_rtt_line (launch/agents/clock.py).
        uncertainty_s: error bound of the starts, in seconds.
    """

    estimator: str
    uncertainty_s: Seconds


def set_start_uncertainty(
    cases: Sequence[CaseRecord], clock: StartClock | None
) -> list[CaseRecord]:
    """Return the cases with the error bound of their starts, from the clock of their ranks."""
    if not clock or not clock.uncertainty_s:
        return list(cases)
    return [
        case if case.start_uncertainty_s else replace(case, start_uncertainty_s=clock.uncertainty_s)
        for case in cases
    ]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Rank 0's results of a point, by the record's names."""

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
        """Set the error bound of each case's starts, from the record's clock.

        Raises:
            ValueError: a reference to a case that does not exist.
        """
        for cases in (self.cases, self.alone, self.fresh):
            cases[:] = set_start_uncertainty(cases, self.start_clock)
        for position, case in enumerate(self.cases):
            components = case.components
            for reference in (case.baseline, components.computation, components.communication):
                if reference is not None and reference >= len(self.cases):
                    raise ValueError(
                        f"cases[{position}] refers to case {reference}, which is missing"
                    )

    @functools.cached_property
    def settings(self) -> Settings:
        """The typed part of `config`; raise ValueError for a missing key or a wrong type."""
        return msgspec.convert({"config": self.config}, Configured).config

    def status_of(self, case: CaseRecord) -> str:
        """Return the status of a case: its own if the point is ok, timed out or failed by a case.

        Else the point's status counts. A point that timed out keeps its measured cases.
        """
        if self.status in ("ok", TIMEOUT) or any(
            other.status == self.status for other in self.cases
        ):
            return case.status
        return self.status

    def to_json(self) -> bytes:
        """Return the file's content; raise TypeError or ValueError for what JSON lacks."""
        return msgspec.json.encode(self)


Kind = TypeVar("Kind")
BEGINNING = b'{"schema_version":%d,' % SCHEMA_VERSION
"""Beginning of a record by `Record.to_json`; it saves a pass over the file for the version."""


class Header(msgspec.Struct):
    schema_version: int


def from_json(content: bytes) -> Record:
    """Return the record in a file's content; raise ValueError with the problem and its place."""
    try:
        if not content.startswith(BEGINNING):
            require_version(content)
        record = decode(content, Record)
        _ = record.settings  # raises for wrong values
        return record
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"not a whole record ({type(error).__name__}: {error})") from None


def decode(content: bytes, kind: type[Kind]) -> Kind:
    """Decode JSON to a type, all of its text printable.

    Files are untrusted, and their text reaches terminals, tables and pages.
    """
    try:
        decoded = msgspec.json.decode(content, type=kind)
        if content.isascii() and b"\\" not in content and b"\x7f" not in content:
            return decoded  # most files
        return msgspec.convert(escape_texts(msgspec.json.decode(content)), kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not readable as JSON ({error})") from None
    except RecursionError:
        raise ValueError("not readable as JSON (nested too deeply)") from None


def escape_texts(value: Any) -> Any:
    """Escape unprintable characters in the texts of decoded JSON; line breaks and tabs stay."""
    if isinstance(value, str):
        return escape_unprintable(value)
    if isinstance(value, list):
        # Most values are samples; a call for each would double the time.
        return [item if type(item) is float else escape_texts(item) for item in value]
    if isinstance(value, dict):
        return {escape_unprintable(name): escape_texts(item) for name, item in value.items()}
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
"""Statuses of an interrupted point; it runs again with its job, or when the sweep is resumed."""
FINAL = tuple(status for status in STATUSES if status not in ("running", "preempted", "cancelled"))
"""Statuses that a submitted point keeps until the sweep is resumed."""
HARMLESS = ("ok", "unavailable", "skipped")  # do not make a sweep fail
