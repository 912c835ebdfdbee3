"""Places at which breaking the code must make a test fail."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.cli import ROOT

FOLDERS = ("benchkit", "launch", "analysis", "hydra_plugins", "conf")


class Breakage(NamedTuple):
    """What one file of the source has once, what it has then, and the file of tests that must see it."""

    sound: str
    broken: str
    tests: str

    def places(self) -> list[Path]:
        """The files that hold the sound text, relative to the checkout; it is one, wherever it moves."""
        files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".yaml"))
        return [path.relative_to(ROOT) for path in files for _ in range(path.read_text().count(self.sound))]


def copy_checkout(into: Path) -> None:
    """What git tracks, as it is here."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, into / name)


BREAKAGES = [
    Breakage("MOST_SHARE = 0.75", "MOST_SHARE = 0.7", "unit/analysis/test_simulate"),
    Breakage("(load >= BUSY * most[ends])", "(load > 0)", "unit/analysis/test_simulate"),
    Breakage("2 * float(np.minimum", "0 * float(np.minimum", "unit/test_statistics"),
    Breakage("np.float64).max(axis=0)", "np.float64).min(axis=0)", "unit/test_statistics"),
    Breakage("self.barrier()", "print()", "unit/measure/test_timer"),
    Breakage("checked.update(", "print(", "cli/test_faults"),
    Breakage("failure.signal == signal.SIGKILL and any", "any", "unit/point/test_outcome"),
    Breakage(
        "torch.equal(left.view(bits), right.view(bits))",
        "torch.equal(left.view(bits)[:1], right.view(bits)[:1])",
        "unit/api/test_verification",
    ),
    Breakage("(not key.identity or", "(key.identity or", "unit/config/test_identity"),
    Breakage("1 + max(numbers, default=0)", "1 + len(numbers)", "unit/sweep/test_resume"),
    Breakage("os.O_CLOEXEC, 0o600)", "os.O_CLOEXEC, 0o644)", "unit/sweep/test_resume"),
    Breakage("seen[key] += 1", "seen[key] += 0", "unit/sweep/test_resume"),
    Breakage('secret.encode(errors="surrogatepass"), role + ', 'b"", role + ', "unit/launch/agents/test_handshake"),
    Breakage("max(1, int(cores))", "max(1, int(cores) * world_size)", "unit/point/test_placement"),
    Breakage("return 1 if failed or", "return 0 if failed or", "cli/test_cli"),
    Breakage("return status.exit_code(task.statuses)", "return status.exit_code([])", "cli/test_faults"),
    Breakage("sigmoid(other[1] - lse)", "sigmoid(lse - other[1])", "suites/test_ring_attention"),
    Breakage(
        "owner, next_owner = (self.rank - turn) %",
        "owner, next_owner = (self.rank + turn) %",
        "suites/test_ring_attention",
    ),
    Breakage("summand[job.rank * most : (job.rank + 1) * most]", "summand[:most]", "suites/test_tensor_parallel"),
    Breakage("else 3 * forward", "else 2 * forward", "suites/test_transformer"),
    Breakage("fastest = min(self.candidates", "fastest = max(self.candidates", "suites/test_auto_shard_planner"),
    Breakage("return 2 * (world_size - 1)", "return (world_size - 1)", "suites/test_collective"),
    Breakage("return lut.read(path, seq_len,", "return lut.read(path, 1,", "suites/test_ring_attention"),
    Breakage("F_SETSIG, signal.SIGKILL", "F_SETSIG, signal.SIGWINCH", "unit/launch/ranks/test_start"),
    Breakage("cause = min(failures", "cause = max(failures", "unit/launch/ranks/test_start"),
    Breakage(
        "raise NoLock(error) from None\n                return False",
        "raise NoLock(error) from None\n                return True",
        "unit/launch/agents/test_host_lock",
    ),
    Breakage('"OMPI_COMM_WORLD_RANK", "OMPI', '"OMPI_COMM_WORLD_SIZE", "OMPI', "unit/launch/test_launcher_env"),
    Breakage("self._threads / factor", "self._threads * factor", "unit/launch/test_slowdown"),
    Breakage(
        "return count / median_s if count", "return count * median_s if count", "suites/test_transformer_analysis"
    ),
    Breakage("(peak * 1e12) if", "(peak * 1e9) if", "suites/test_transformer_analysis"),
    Breakage(
        "self.byte_s * num_bytes\n\n    def interval",
        "self.byte_s\n\n    def interval",
        "suites/test_collective_analysis",
    ),
    Breakage("/ min(group_medians_s) - 1", "/ max(group_medians_s) - 1", "suites/test_tensor_parallel_analysis"),
    Breakage("time_us * 1e-6,", "time_us * 1e-3,", "unit/analysis/test_imports"),
    Breakage('        "params": None,\n', "", "cli/test_cli"),
    Breakage(
        "max_iterations: 20       # samples per case\nmax_seconds: 1  ",
        "max_iterations: 21       # samples per case\nmax_seconds: 1  ",
        "cli/test_cli",
    ),
]
