"""What all tests share: benchkit on the command line or in this process, tiers, and a host of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchkit import cli as app
from benchkit.errors import ConfigError
from benchkit.sweep import check as command
from launch.agents.host_lock import LOCK_VARIABLE
from syrupy.assertion import SnapshotAssertion

from tests.support.cli import ROOT, SUITES, Cli, cleaned
from tests.support.entries.launch_ranks import fork_server as server
from tests.support.golden import GoldenFiles, masked

Told = Callable[..., tuple[int, str, str]]

TIERS = ("slow", "cluster")
"""Folders of tests that `make test` leaves out; their tests get a marker of that name (pyproject.toml)."""

SHARED = {
    "module_cli", "slurm", "chromium", "pages", "charts_of_suites", "poisoned_folder", "of_many_ranks",
}  # fmt: skip
"""Fixtures that take seconds: all tests of a file that use one run on the same worker."""

collect_ignore = [] if "BENCHKIT_EMULATOR" in os.environ else ["gpu"]
"""`make gpu` names the folder of the emulator, without which tests of GPU paths cannot run."""

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # hardware=auto is cpu in tests, also where GPUs are
os.environ["OMP_NUM_THREADS"] = "1"  # workers share the cores: threads that spin for each other would take all of them
os.environ[LOCK_VARIABLE] = f"benchkit-test-{os.getpid()}"  # other runs on this host measure, or test, beside these
os.environ["XDG_STATE_HOME"] = os.devnull  # no noise floor of the machine that the tests run on
os.environ["XDG_CACHE_HOME"] = os.devnull  # and no figures of records that other tests wrote
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as in containers: hundreds of processes would compile the source anew
sys.dont_write_bytecode = False
os.environ.setdefault("MPLCONFIGDIR", str(ROOT / ".pytest_cache" / "matplotlib"))  # one list of fonts for all processes
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:  # as under `nohup make test &`: what tests start would inherit it
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Marks every test below a tier's folder, and keeps tests that share an expensive fixture on one worker."""
    if items and items[0].config.getoption("update_snapshots"):  # make golden
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    for item in items:
        for tier in TIERS:
            if tier in item.path.relative_to(ROOT).parts:
                item.add_marker(tier)
        shared = SHARED & set(getattr(item, "fixturenames", ()))
        if shared:
            item.add_marker(pytest.mark.xdist_group("slurm" if "slurm" in shared else item.path.stem))
    yield


def pytest_xdist_auto_num_workers() -> int:
    """Workers for `-n auto`: whole commands wait for a third of their time; each worker loads torch for itself."""
    return min(12, 3 * len(os.sched_getaffinity(0)) // 2)


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> Callable[..., None]:
    """Compares a text with the one that the golden file has for this test; `make golden` renews it."""
    held = snapshot.use_extension(GoldenFiles)

    def compare(text: str, masks: dict[str, str] | None = None) -> None:
        assert masked(text, masks) == held

    return compare


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    yield from cleaned(Cli(tmp_path))


@pytest.fixture(scope="module")
def module_cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The same for a sweep that several tests look at."""
    yield from cleaned(Cli(tmp_path_factory.mktemp("sweep")))


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Why `python -m benchkit` would refuse some arguments, in an empty folder; "" where it would run."""
    monkeypatch.setenv("BENCHKIT_SUITES", SUITES)
    monkeypatch.chdir(tmp_path)

    def found(*arguments):
        try:
            command.check(["--config-dir", str(ROOT / "tests" / "conf"), *arguments])
        except ConfigError as error:
            return str(error)
        return ""

    return found


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Told:
    """Runs a command line in this process, in an empty folder; returns its exit code, output and complaint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCHKIT_SUITES", SUITES)
    monkeypatch.setattr(app, "install_handlers", lambda numbers, handler: None)

    def run(*arguments: str, **variables: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["benchkit", *arguments])
        with monkeypatch.context() as during:
            for name, value in variables.items():
                during.setenv(name, value)
            code = app.main()
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def fork_server() -> None:
    """Ranks started by this process find torch loaded."""
    server.start_fork_server(["torch", "torch.distributed.tensor"])


@pytest.fixture(scope="session")
def slurm() -> Iterator[None]:
    """A Slurm of two nodes: the one that runs here already, or one started for the tests."""
    devcluster = ROOT / "launch" / "slurm_devcluster"
    status = subprocess.run([devcluster, "status"], capture_output=True, text=True, check=False)
    if status.returncode not in (0, 3):
        pytest.skip(status.stderr.strip())
    if status.returncode == 3:
        subprocess.run([devcluster, "up"], check=True)
    yield
    if status.returncode == 3:
        subprocess.run([devcluster, "down"], check=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: "pytest.CallInfo[None]") -> Iterator[None]:
    """Where BENCHKIT_NO_SKIPS is set, "skipped because something is missing here" is a failure."""
    report = yield
    if report.skipped and os.environ.get("BENCHKIT_NO_SKIPS"):
        report.outcome = "failed"
    return report
