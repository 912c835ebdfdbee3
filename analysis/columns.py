"""The columns of the combined table that every table has: their types, units and meanings."""

from dataclasses import dataclass

NUMBER, INTEGER, BOOLEAN, TEXT = "float64", "Int64", "boolean", "string"
TIME = "datetime64[ns, UTC]"
"""Types of pandas. A missing value is NaN in NUMBER, NaT in TIME, and NA in the others."""


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Attributes:
        meaning: a phrase, for docs/api.md.
        unit: of its numbers; "" for text and for numbers without one.
        dtype: one of the types above.
    """

    meaning: str
    unit: str = ""
    dtype: str = NUMBER


def text(meaning: str) -> Column:
    return Column(meaning, dtype=TEXT)


def integer(meaning: str, unit: str = "") -> Column:
    return Column(meaning, unit, INTEGER)


def boolean(meaning: str) -> Column:
    return Column(meaning, dtype=BOOLEAN)


def seconds(meaning: str) -> Column:
    return Column(meaning, "s")


def share(meaning: str) -> Column:
    return Column(meaning, "share of 1")


SETTINGS = {
    "suite": text("the suite"),
    "status": text("how the case ended, or the point if it has no case"),
    "backend": text("the library of the collectives"),
    "device": text("cpu or cuda"),
    "world_size": integer("ranks of the point"),
    "model": text("the model's name, with the sizes in which models of one name differ"),
}
CONDITIONS = {
    "host": text("hosts of the agents, joined by +"),
    "device_name": text("the processor, or the GPU"),
    "torch": text("its version"),
    "cuda": text("version of CUDA that torch was built for"),
    "nccl": text("version of NCCL"),
    "driver": text("version of the GPUs' driver"),
    "commit": text("commit of benchkit; with + and a hash where the code was changed"),
    "kernel": text("version of the operating system's kernel"),
    "launched_by": text("plain, torchrun, mpirun, srun, …"),
    "num_agents": integer("agents that started the ranks"),
    "start_method": text("forkserver or spawn"),
    "processes": text("fresh, reuse or auto: the key `ranks`"),
    "threads": text("the key `threads_per_rank`: a number or auto"),
    "ranks_per_device": integer("ranks that shared a GPU"),
    "full_share": text("percent of a GPU that MPS gives a rank at full speed, or auto"),
    "backend_env": text("variables that were set for the backend"),
    "slowdown": text("factor of the last rank, or a list with one per rank"),
    "seed": integer("of inputs and of the order of cases"),
    "mode": text("how calls were timed: the key `measure.mode`"),
    "calls_per_sample": text("the key `measure.calls_per_sample`: a number or auto"),
    "warmup_iterations": integer("the key `measure.warmup_iterations`"),
}
TIMES = {
    "median_s": seconds("median time of a call, of the slowest rank"),
    "ci_low_s": seconds("lower end of the median's 95 % interval within the run"),
    "ci_high_s": seconds("its upper end"),
    "min_s": seconds("shortest call"),
    "max_s": seconds("longest call"),
    "mean_s": seconds("mean"),
    "std_s": seconds("standard deviation"),
    "p25_s": seconds("25th percentile"),
    "p95_s": seconds("95th percentile"),
    "p99_s": seconds("99th percentile"),
    "start_skew_s": seconds("median of the last rank's start minus the first rank's"),
    "makespan_s": seconds("median of the last rank's end minus the last rank's start"),
    "osu_mean_s": seconds("mean of all ranks' samples of one call each, as OSU prints it"),
    "rel_ci": share("half the width of the interval, over the median"),
}
COMPARISONS = {
    "paired_speedup": Column("rate of useful work over that of the job's baseline, in pairs"),
    "paired_speedup_low": Column("lower end of its 95 % interval"),
    "paired_speedup_high": Column("upper end of its 95 % interval"),
    "overlap": share(
        "share of the shorter component that is hidden; below 0 they hinder each other"
    ),
    "overlap_low": share("lower end of its 95 % interval"),
    "overlap_high": share("upper end of its 95 % interval"),
    "scaling_efficiency": share("`paired_speedup` over one rank, per rank"),
    "comm_share": share("time of communication alone, over the median"),
    "limit_share": share("time of the longer component alone, over the median"),
    "regret": share("how much slower than the fastest case of the same work"),
    "alone_s": seconds("median time of the case alone in fresh ranks"),
    "turns_ratio": Column("the median in turns, over `alone_s`"),
    "turns_ratio_low": Column("lower end of its interval over runs"),
    "turns_ratio_high": Column("upper end of its interval over runs"),
    "alone_speedup": Column("`paired_speedup` of both cases alone in fresh ranks"),
    "speedup_in_turns": Column("`paired_speedup` in turns, where it is that of fresh ranks"),
    "fresh_s": seconds("median time in fresh ranks, of ranks that stay for several points"),
    "reuse_ratio": Column("the median, over `fresh_s`"),
}
RATES = {
    "predicted_s": seconds("time by the suite's cost model"),
    "ideal_s": seconds("time with all work spread over all speed"),
    "efficiency": share("`ideal_s` over the median"),
    "useful_tflop_per_s": Column("operations that the task needs, over the median", "TFLOP/s"),
    "executed_tflop_per_s": Column("operations that are executed, over the median", "TFLOP/s"),
    "tokens_per_second": Column("tokens of a call, over the median", "1/s"),
    "mfu_full": share("useful operations of full attention per second, over the peak rate"),
    "mfu_causal": share("the same without the masked pairs of tokens"),
    "hfu_full": share("executed operations per second, over the peak rate"),
    "backward_over_forward": Column("time of backward, over that of forward"),
    "host_bound": Column("time to queue a call on the host, over the GPU's time, where longer"),
    "wire_bytes": integer("bytes that a rank sends", "B"),
    "payload_bytes": integer("message size as nccl-tests defines it", "B"),
    "algbw_gb_per_s": Column("payload over the median", "GB/s"),
    "busbw_gb_per_s": Column("`algbw_gb_per_s` times the operation's bus factor", "GB/s"),
}
NOISE = {
    "straggler_rank": integer("the rank that ended last most often"),
    "straggler_share": share("iterations in which it ended last"),
    "spikes_all_share": share("iterations in which every rank took over 5 times its median"),
    "spikes_some_share": share("iterations in which some ranks did, and not all"),
    "slow_mode_ratio": Column("the slower mode over the faster one, where times have two"),
    "slow_mode_share": share("iterations of the slower mode"),
    "first_call_s": seconds("time of the first call, with `measure.mode=cold`"),
    "first_call_ratio": Column("the same, over the median of the later half of all calls"),
    "warm_from_call": integer("the first call that takes at most 1.1 times that median"),
    "num_samples": integer("samples of each rank"),
    "independent_samples": integer("effective number of independent samples"),
}
PROVENANCE = {
    "run": text("folder of the sweep; #2 for its second repetition"),
    "load": Column("load average of the busiest host before the point"),
    "warning": text("warnings of the point"),
    "noise_floor": text("how much identical runs differ here, by the latest selftest"),
    "identical_runs": share("the same as a number"),
    "speedup_from": text("`fresh ranks` where turns changed `paired_speedup`"),
    "doubt": text("impossible figures and their likely causes"),
    "unchecked": text("what the timed calls computed without a check"),
    "is_component": boolean("whether the case times one component of another"),
    "unslowed": boolean("whether the case ran without the point's slowdown"),
    "contest": text("the work and the ranks that cases are compared within"),
    "model.d_model": integer("width of the model"),
    "model.d_ff": integer("width of its feed-forward layers"),
    "model.num_layers": integer("its layers"),
    "model.num_heads": integer("its attention heads"),
    "model.vocab_size": integer("size of its vocabulary"),
    "measured_slowdown": text("the factor measured of each rank"),
    "slowed_by": text("what slowed ranks down: cgroup, duty cycle, mps"),
    "calls": integer("consecutive calls per sample"),
    "estimator": text("how the time of an iteration is computed"),
    "stopped_by": text("target_rel_ci, max_iterations or max_seconds"),
    "converged": boolean("whether `rel_ci` met its target"),
    "steady": boolean("whether the warm-up had become steady"),
    "disturbed": text("what took cores or clocks away during the samples"),
    "clock": text("the clock of the samples"),
    "start_clock": text("how starts on several hosts are compared"),
    "start_uncertainty_s": seconds("how wrong these starts may be"),
    "threads_per_rank": integer("threads of each rank"),
    "cores_per_rank": Column("cores of each rank"),
    "reason": text("why the status is not ok"),
    "failed_rank": integer("the rank that is the cause"),
    "point_id": text("identity of the point's configuration"),
    "started_at": Column("start of the point", dtype=TIME),
    "total_s": seconds("duration of the point, without its wait for the host"),
    "points_before": integer("points that its ranks had measured before"),
    "held_bytes": integer("memory that its ranks held when it began", "B"),
    "path": text("the record's file"),
    "title": text("the operation, or the suite"),
}
COLUMNS = {
    **SETTINGS, **CONDITIONS, **TIMES, **COMPARISONS, **RATES, **NOISE, **PROVENANCE,
}  # fmt: skip
"""By name, in the table's order. The suites' own keys, labels and details come beside these."""
