"""Columns of the combined table that all suites have, one entry each, in the table's order.

Suites' own keys, labels and details stand between them.
"""

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from analysis.records.metrics import (
    CaseMetrics,
    Formula,
    backward_over_forward,
    bandwidth_formula,
    case_formula,
    detail_formula,
    efficiency,
    flop_rate_formula,
    host_bound,
    osu_mean,
    rate_formula,
    utilisation_formula,
)
from benchkit.api.case import CAUSAL_FLOPS, IDEAL_S, PREDICTED_S, TOKENS_PER_CALL
from benchkit.record.record import CaseRecord
from benchkit.statistics.summary import algorithm_bandwidth, bus_bandwidth

NUMBER, INTEGER, BOOLEAN, TEXT = "float64", "Int64", "boolean", "string"
TIME = "datetime64[ns, UTC]"
"""Types of pandas. A missing value is NaN in NUMBER, NaT in TIME, and NA in the others."""
PRINTED = {
    "s": ("ms", 1e3),
    "share of 1": ("%", 100.0),
    "TFLOP/s": ("TFLOP/s", 1.0),
    "GB/s": ("GB/s", 1.0),
}
"""By unit: the unit in print, and the factor to it; a number of another unit is printed bare."""


@dataclass(frozen=True)
class Column:
    """A column of the combined table.

    Attributes:
        is_software: whether it describes hardware or software.
        is_rate: whether it is computed from the median; over several runs, from their median.
    """

    name: str
    meaning: str
    unit: str = ""
    dtype: str = NUMBER
    formula: Formula | None = None
    is_software: bool = False
    is_rate: bool = False
    is_printed: bool = False
    words: str = ""  # in print, where not the name with the unit

    def value(self, case: CaseRecord, summary: CaseMetrics) -> Any:
        return self.formula(case, summary) if self.formula else summary.get(self.name)

    @property
    def printed_unit(self) -> str:
        return PRINTED.get(self.unit, ("", 1.0))[0]

    @property
    def scale(self) -> float:
        """Factor from the number to the printed unit."""
        return PRINTED.get(self.unit, ("", 1.0))[1]

    @property
    def head(self) -> str:
        """In print: "median [ms]"."""
        bare = self.name.removesuffix("_gb_per_s").removesuffix("_tflop_per_s").removesuffix("_s")
        return self.words or bare + (f" [{self.printed_unit}]" if self.printed_unit else "")


text = partial(Column, dtype=TEXT)
integer = partial(Column, dtype=INTEGER)
boolean = partial(Column, dtype=BOOLEAN)
moment = partial(Column, dtype=TIME)
seconds = partial(Column, unit="s")
share = partial(Column, unit="share of 1")
number = Column

SETTINGS = (
    text("suite", "the suite"),
    text("status", "how the case ended, or the point if it has no case"),
    text("backend", "the library of the collectives"),
    text("device", "cpu or cuda"),
    integer("world_size", "ranks of the point"),
    text("model", "the model's name, with the sizes in which models of one name differ"),
)
"""What was measured."""
CONDITIONS = (
    text("host", "the node, or the first of several of one kind: n1 and 3 alike"),
    text("device_name", "the processor, or the GPU", is_software=True),
    text("torch", "its version", is_software=True),
    text("cuda", "version of CUDA that torch was built for", is_software=True),
    text("nccl", "version of NCCL", is_software=True),
    text("driver", "version of the GPUs' driver", is_software=True),
    text(
        "commit",
        "commit of benchkit; with + and a hash where the code was changed",
        is_software=True,
    ),
    text("kernel", "version of the operating system's kernel", is_software=True),
    text("launched_by", "plain, torchrun, mpirun, srun, …"),
    integer("num_agents", "agents that started the ranks"),
    text("start_method", "forkserver or spawn"),
    text("processes", "fresh, reuse or auto: the key `ranks`"),
    text("threads", "the key `threads_per_rank`: a number or auto"),
    integer("ranks_per_device", "ranks that shared a GPU"),
    text("full_share", "percent of a GPU that MPS gives a rank at full speed, or auto"),
    text("backend_env", "variables that were set for the backend"),
    text("variables", "of the environment, read by libraries: NCCL_ALGO=Ring OMP_NUM_THREADS=2"),
    text("slowdown", "factor of the last rank, or a list with one per rank"),
    integer("seed", "of inputs and of the order of cases"),
    text("mode", "how calls were timed: the key `measure.mode`"),
    text("calls_per_sample", "the key `measure.calls_per_sample`: a number or auto"),
    integer("warmup_iterations", "the key `measure.warmup_iterations`"),
    seconds("max_warmup_seconds", "the key `measure.max_warmup_seconds`"),
    share("target_rel_ci", "the key `measure.target_rel_ci`"),
    integer("max_iterations", "the key `measure.max_iterations`"),
    seconds("max_seconds", "the key `measure.max_seconds`"),
    integer("min_blocks", "the key `measure.min_blocks`"),
    seconds("block_seconds", "the key `measure.block_seconds`"),
    seconds("probe_seconds", "the key `measure.probe_seconds`"),
    boolean("cold_l2", "whether the GPU's L2 cache was flushed before each sample"),
    text("profile", "the key `profile`, where it is not false"),
    text("arm", "of a comparison, as it was typed"),
)
"""Part of a row's identity, because medians depend on it; shown only where rows differ in it."""
TIMES = (
    seconds("median_s", "median time of a call, of the slowest rank", is_printed=True),
    seconds("ci_low_s", "lower end of the median's 95 % interval within the run"),
    seconds("ci_high_s", "its upper end"),
    seconds(
        "range_low_s",
        "without an interval: middle half of calls, range of fewer than 12 or of runs",
    ),
    seconds("range_high_s", "its upper end"),
    seconds("min_s", "shortest call"),
    seconds("max_s", "longest call"),
    seconds("mean_s", "mean", is_printed=True),
    seconds("std_s", "standard deviation"),
    seconds("p25_s", "25th percentile", is_printed=True),
    seconds("p75_s", "75th percentile"),
    seconds("p95_s", "95th percentile", is_printed=True),
    seconds("p99_s", "99th percentile"),
    seconds(
        "start_skew_s", "median of the last rank's start minus the first rank's", is_printed=True
    ),
    seconds("makespan_s", "median from the last rank's start to the last rank's end, per call"),
    seconds(
        "osu_mean_s",
        "mean of all ranks' samples of one call each, as OSU prints it",
        formula=osu_mean,
    ),
    share("rel_ci", "half the width of the interval, over the median"),
)

COMPARISONS = (
    number(
        "paired_speedup",
        "rate of useful work over that of the job's baseline, in pairs",
        is_printed=True,
    ),
    number("paired_speedup_low", "lower end of its 95 % interval"),
    number("paired_speedup_high", "upper end of its 95 % interval"),
    number(
        "paired_speedup_range_low",
        "without an interval: middle half of rounds, range of fewer than 12 or of runs",
    ),
    number("paired_speedup_range_high", "its upper end"),
    share(
        "overlap",
        "share of the shorter component that is hidden; below 0 they hinder each other",
        is_printed=True,
    ),
    share("overlap_low", "lower end of its 95 % interval"),
    share("overlap_high", "upper end of its 95 % interval"),
    share(
        "overlap_range_low",
        "without an interval: middle half of rounds, range of fewer than 12 or of runs",
    ),
    share("overlap_range_high", "its upper end"),
    integer("num_turns", "turns that both cases of `paired_speedup` took, or all of `overlap`"),
    share("scaling_efficiency", "`paired_speedup` over one rank, per rank", is_printed=True),
    share("comm_share", "time of communication alone, over the median", is_printed=True),
    share("limit_share", "time of the longer component alone, over the median", is_printed=True),
    share("regret", "how much slower than the fastest case of the same work", is_printed=True),
    seconds("alone_s", "median time of the case, isolated in fresh ranks"),
    number("turns_ratio", "the median of interleaved samples, over `alone_s`", is_printed=True),
    number("turns_ratio_low", "lower end of its interval over runs"),
    number("turns_ratio_high", "upper end of its interval over runs"),
    number("alone_speedup", "`paired_speedup` of both cases, isolated in fresh ranks"),
    seconds("fresh_s", "median time in fresh ranks, of ranks that stay for several points"),
    number("reuse_ratio", "the median, over `fresh_s`"),
)

RATES = (
    seconds(
        "predicted_s",
        "time by the suite's cost model",
        formula=detail_formula(PREDICTED_S),
        is_printed=True,
    ),
    seconds("ideal_s", "time with all work spread over all speed", formula=detail_formula(IDEAL_S)),
    share(
        "efficiency", "`ideal_s` over the median", formula=efficiency, is_rate=True, is_printed=True
    ),
    number(
        "useful_tflop_per_s",
        "operations that the task needs, over the median",
        unit="TFLOP/s",
        formula=flop_rate_formula("useful_flops"),
        is_rate=True,
        is_printed=True,
    ),
    number(
        "executed_tflop_per_s",
        "operations that are executed, over the median",
        unit="TFLOP/s",
        formula=flop_rate_formula("executed_flops"),
        is_rate=True,
    ),
    number(
        "tokens_per_second",
        "tokens of a call, over the median",
        unit="1/s",
        formula=rate_formula(TOKENS_PER_CALL),
        is_rate=True,
        is_printed=True,
    ),
    share(
        "mfu_full",
        "useful operations of full attention per second, over the peak rate",
        formula=utilisation_formula(case_formula("useful_flops")),
        is_rate=True,
        is_printed=True,
    ),
    share(
        "mfu_causal",
        "the same without the masked pairs of tokens",
        formula=utilisation_formula(detail_formula(CAUSAL_FLOPS)),
        is_rate=True,
    ),
    share(
        "hfu_full",
        "executed operations per second, over the peak rate",
        formula=utilisation_formula(case_formula("executed_flops")),
        is_rate=True,
    ),
    number(
        "backward_over_forward",
        "time of backward, over that of forward",
        formula=backward_over_forward,
    ),
    number(
        "host_bound",
        "time to queue a call on the host, over the time of the call, where 0.9 or more",
        formula=host_bound,
        is_printed=True,
    ),
    integer("wire_bytes", "bytes that a rank sends", unit="B", formula=case_formula("wire_bytes")),
    integer(
        "payload_bytes",
        "message size as nccl-tests defines it",
        unit="B",
        formula=case_formula("payload_bytes"),
    ),
    number(
        "algbw_gb_per_s",
        "payload over the median",
        unit="GB/s",
        formula=bandwidth_formula(algorithm_bandwidth),
        is_rate=True,
        is_printed=True,
    ),
    number(
        "busbw_gb_per_s",
        "`algbw_gb_per_s` times the operation's bus factor",
        unit="GB/s",
        formula=bandwidth_formula(bus_bandwidth),
        is_rate=True,
        is_printed=True,
    ),
)

NOISE = (
    integer("straggler_rank", "the rank that ended last most often"),
    share("straggler_share", "iterations in which it ended last"),
    share("spikes_all_share", "iterations in which every rank took over 5 times its median"),
    share("spikes_some_share", "iterations in which some ranks did, and not all"),
    number("slow_mode_ratio", "the slower mode over the faster one, where times have two"),
    share("slow_mode_share", "iterations of the slower mode"),
    seconds("first_call_s", "time of the first call, with `measure.mode=cold`"),
    seconds("warm_s", "median of the later half of these calls"),
    seconds("warm_low_s", "lower end of its 95 % interval over runs"),
    seconds("warm_high_s", "its upper end"),
    seconds("warm_range_low_s", "without an interval, its range in that half or over runs"),
    seconds("warm_range_high_s", "its upper end"),
    number("first_call_ratio", "`first_call_s` over `warm_s`"),
    integer("warm_from_call", "the first call that takes at most 1.1 times that median"),
    integer("num_samples", "samples of each rank", is_printed=True),
    integer("checks", "checks at random places among them", formula=case_formula("checks")),
    integer("independent_samples", "effective number of independent samples"),
)

PROVENANCE = (
    text("run", "folder of the sweep; #2 for its second repetition"),
    text("node", "hosts of the agents, joined by +, as they are called"),
    number("load", "load average of the busiest host before the point"),
    text("warning", "warnings of the point"),
    text("noise_floor", "how much identical runs differ here, by the latest selftest"),
    share("identical_runs", "the same as a number"),
    text("doubt", "impossible figures and their likely causes"),
    text("unchecked", "what the timed calls computed without a check"),
    boolean("is_component", "whether the case times one component of another"),
    boolean("unslowed", "whether the case ran without the point's slowdown"),
    text("contest", "the work and the ranks that cases are compared within"),
    integer("model.d_model", "width of the model"),
    integer("model.d_ff", "width of its feed-forward layers"),
    integer("model.num_layers", "its layers"),
    integer("model.num_heads", "its attention heads"),
    integer("model.vocab_size", "size of its vocabulary"),
    text("measured_slowdown", "the factor measured of each rank"),
    text("slowed_by", "what slowed ranks down: cgroup, duty cycle, mps"),
    integer("calls", "consecutive calls per sample"),
    text("estimator", "how the time of an iteration is computed"),
    text("stopped_by", "target_rel_ci, max_iterations, max_seconds, or timeout of the point"),
    boolean("converged", "whether `rel_ci` met its target"),
    boolean("steady", "whether the warm-up had become steady"),
    text("disturbed", "what took cores or clocks away during the samples"),
    text("clock", "the clock of the samples"),
    text("start_clock", "how starts on several hosts are compared"),
    seconds("start_uncertainty_s", "how wrong these starts may be"),
    integer("threads_per_rank", "threads of each rank"),
    number("cores_per_rank", "cores of each rank"),
    text("reason", "why the status is not ok"),
    integer("failed_rank", "the rank that is the cause"),
    text("point_id", "identity of the point's configuration"),
    moment("started_at", "start of the point"),
    seconds("total_s", "duration of the point, without its wait for the host"),
    integer("points_before", "points that its ranks had measured before"),
    integer("held_bytes", "memory that its ranks held when it began", unit="B"),
    text("path", "the record's file"),
    text("title", "the operation, or the suite"),
)
METRICS = (*TIMES, *COMPARISONS, *RATES, *NOISE)
"""Derived from a case and its samples."""
SPREADS = (
    share("within_share", "the runs' median `rel_ci`", words="within a run [±%]"),
    share("between_share", "half the range of runs, over the median", words="between runs [±%]"),
)
"""Added by `analysis.table.repetitions.aggregate_repetitions`."""
FIGURES = {column.name: column for column in (*METRICS, *SPREADS)}
COLUMNS = {column.name: column for column in chain(SETTINGS, CONDITIONS, METRICS, PROVENANCE)}


def names_of(*groups: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple(column.name for column in chain(*groups))
