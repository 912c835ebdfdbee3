"""Places at which breaking the code must make a test fail."""

from typing import NamedTuple


class Breakage(NamedTuple):
    """What a file has once, what it has then, and the file of tests that must see it."""

    file: str
    sound: str
    broken: str
    tests: str


BREAKAGES = [
    Breakage("benchkit/statistics/faults/peers.py", "SHARE = 0.75", "SHARE = 0.7", "unit/analysis/test_simulate"),
    Breakage(
        "analysis/suites/pair_matrix/sharing.py",
        "(load >= BUSY * most[ends])",
        "(load > 0)",
        "unit/analysis/test_simulate",
    ),
    Breakage(
        "benchkit/statistics/intervals.py", "2 * float(np.minimum", "0 * float(np.minimum", "unit/test_statistics"
    ),
    Breakage(
        "benchkit/statistics/summary.py",
        "np.float64).max(axis=0)",
        "np.float64).min(axis=0)",
        "unit/test_statistics",
    ),
    Breakage(
        "benchkit/measure/sampler.py",
        "self.barrier()",
        "print()",
        "unit/measure/test_timer",
    ),
    Breakage(
        "benchkit/rank/verdicts.py",
        'self.note("invalid", reason_of)\n        used_by',
        "print(reason_of)\n        used_by",
        "cli/test_faults",
    ),
    Breakage(
        "benchkit/point/outcome.py",
        "failed.signal == signal.SIGKILL and out_of_memory",
        "out_of_memory",
        "unit/point/test_outcome",
    ),
    Breakage(
        "benchkit/api/verification.py",
        "torch.equal(left.view(bits), right.view(bits))",
        "torch.equal(left.view(bits)[:1], right.view(bits)[:1])",
        "unit/api/test_verification",
    ),
    Breakage("benchkit/config/identity.py", "(not key.identity or", "(key.identity or", "unit/config/test_identity"),
    Breakage(
        "benchkit/point/recording.py", "1 + max(numbers, default=0)", "1 + len(numbers)", "unit/sweep/test_resume"
    ),
    Breakage("benchkit/point/claim.py", "os.O_CLOEXEC, 0o600)", "os.O_CLOEXEC, 0o644)", "unit/sweep/test_resume"),
    Breakage("benchkit/sweep/entries.py", "seen[key] += 1", "seen[key] += 0", "unit/sweep/test_resume"),
    Breakage(
        "launch/agents/handshake.py",
        'secret.encode(errors="surrogatepass"), role + ',
        'b"", role + ',
        "unit/launch/agents/test_handshake",
    ),
    Breakage(
        "benchkit/point/placement.py",
        "max(1, int(cores))",
        "max(1, int(cores) * world_size)",
        "unit/point/test_placement",
    ),
    Breakage("benchkit/cli.py", "return EXIT_FAILED if failed", "return EXIT_OK if failed", "cli/test_cli"),
    Breakage(
        "benchkit/config/hydra_internals.py",
        "return task.statuses",
        "return []",
        "cli/test_faults",
    ),
    Breakage(
        "benchkit/suites/ring_attention/attention.py",
        "sigmoid(other[1] - lse)",
        "sigmoid(lse - other[1])",
        "suites/test_ring_attention",
    ),
    Breakage(
        "benchkit/suites/ring_attention/ring.py",
        "(self.rank - turn) %",
        "(self.rank + turn) %",
        "suites/test_ring_attention",
    ),
    Breakage(
        "benchkit/suites/tensor_parallel/rowwise.py",
        "summand[job.rank * most : (job.rank + 1) * most]",
        "summand[:most]",
        "suites/test_tensor_parallel",
    ),
    Breakage("benchkit/suites/transformer/flops.py", "else 3 * forward", "else 2 * forward", "suites/test_transformer"),
    Breakage(
        "benchkit/suites/auto_shard/planner.py", "fastest = min(", "fastest = max(", "suites/test_auto_shard_planner"
    ),
    Breakage(
        "benchkit/suites/collective/sizes.py",
        "return 2 * (world_size - 1)",
        "return (world_size - 1)",
        "suites/test_collective",
    ),
    Breakage(
        "benchkit/suites/ring_attention/config.py",
        "return lut.read(path, seq_len,",
        "return lut.read(path, 1,",
        "suites/test_ring_attention",
    ),
    Breakage(
        "launch/ranks/entry.py", "F_SETSIG, signal.SIGKILL", "F_SETSIG, signal.SIGWINCH", "unit/launch/ranks/test_start"
    ),
    Breakage("launch/ranks/failure.py", "cause = min(failures", "cause = max(failures", "unit/launch/ranks/test_start"),
    Breakage(
        "launch/agents/host_lock.py",
        "                raise\n            return False",
        "                raise\n            return True",
        "unit/launch/agents/test_host_lock",
    ),
    Breakage(
        "launch/topology.py",
        '"OMPI_COMM_WORLD_RANK", "OMPI',
        '"OMPI_COMM_WORLD_SIZE", "OMPI',
        "unit/launch/test_topology",
    ),
    Breakage(
        "launch/slowdown/cgroup.py", "self._threads / factor", "self._threads * factor", "unit/launch/test_slowdown"
    ),
    Breakage(
        "analysis/records/metrics.py",
        "return count / median_s if count",
        "return count * median_s if count",
        "suites/test_transformer_analysis",
    ),
    Breakage("analysis/records/metrics.py", "(peak * 1e12) if", "(peak * 1e9) if", "suites/test_transformer_analysis"),
    Breakage(
        "analysis/suites/collective/line.py",
        "self.latency_s + self.byte_s * num_bytes",
        "self.latency_s + self.byte_s",
        "suites/test_collective_analysis",
    ),
    Breakage(
        "analysis/records/comparisons.py",
        "/ min(rivals_s) - 1",
        "/ max(rivals_s) - 1",
        "suites/test_tensor_parallel_analysis",
    ),
    Breakage(
        "analysis/suites/collective/nccl_rows.py", "time_us * 1e-6,", "time_us * 1e-3,", "unit/analysis/test_imports"
    ),
    Breakage("hydra_plugins/benchkit_sweeper.py", '        "params": None,\n', "", "cli/test_cli"),
    Breakage("conf/measure/quick.yaml", "max_iterations: 20 ", "max_iterations: 21 ", "cli/test_cli"),
]
