"""Another local user, without rights, while a sweep runs: nothing is read, changed or stopped."""

import grp
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from launch.trust import MARKER

from tests.support.cli import PATIENCE_S, ROOT, ends, wait_until
from tests.support.entries.agents import LOCK_VARIABLE
from tests.support.entries.launch_ranks import private_network

NOBODY = 65534
SWEEP = ("+suite=faulty", "-m", "seed=range(6)", "measure=quick", "hydra.sweep.dir=outputs/s")
HOLDER = """
import socket, sys, time
held = socket.socket(socket.AF_UNIX)
held.bind("\\0" + sys.argv[1])
held.listen(1)
print("holds", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def python():
    """An interpreter that any user may run."""
    found = shutil.which("python3", path="/usr/bin:/bin")
    if os.geteuid() or not found or not Path("/sbin/ip").exists():
        pytest.skip("another user needs root to become one, iproute2 and a python3 in /usr/bin")
    return found


@pytest.fixture
def host(cli):
    """A network namespace in which nothing listens but the sweep."""
    name = f"bk{cli.mark[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
    yield ["ip", "netns", "exec", name]
    subprocess.run(["ip", "netns", "delete", name], check=False)


@pytest.mark.parametrize("num_agents", [1, 2])
def test_sweep_withstands_other_user(cli, host, python, num_agents):
    script = (ROOT / "tests" / "support" / "stranger.py").read_text()
    command = [*host, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", python, "-c", script, "30"]
    with subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE, text=True) as stranger:
        if num_agents == 1:
            processes = [cli.start(*SWEEP, under=host)]
        else:
            variables = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": cli.mark}
            processes = [cli.start(*SWEEP, under=host, **variables, OMPI_COMM_WORLD_RANK=str(i)) for i in range(2)]
        results = ends(processes)
        told = json.loads(stranger.communicate(timeout=PATIENCE_S)[0])
    assert [code for code, _, _ in results] == [0] * num_agents, results
    assert told["uid"] == NOBODY
    assert (told["opened"], told["signalled"]) == ([], 0)
    assert told["refused"] > 100
    assert set(told["addresses"]) <= {"0100007F"}  # 127.0.0.1: where agents meet; ranks are out of reach
    records = [json.loads(path.read_text()) for path in (cli.folder / "outputs/s").glob("*/record.json")]
    assert [(record["status"], record["private_network"]) for record in records] == [("ok", True)] * 6


def torchrun(cli, port, *arguments, cwd=None, **variables):
    """Starts benchkit under torchrun's static rendezvous, whose store any local user may read and write."""
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--master-port={port}", *arguments]
    return subprocess.Popen(
        launcher, cwd=cwd or cli.folder, env=cli.environment | variables, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.fixture
def impostor(python):
    """Another user at torchrun's store, as agent 0 of a comparison that runs a program of the impostor's."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free, ExitStack() as ending:
        Path(folder).chmod(0o755)
        program, ran = Path(folder, "program"), Path(folder, "ran")
        program.write_text(f"#!/bin/sh\nid -u > {ran}\n")
        program.chmod(0o755)
        port = free.getsockname()[1]
        free.close()
        script = (ROOT / "tests" / "support" / "impostor.py").read_text()
        command = [python, "-c", script, str(port), str(program)]
        stranger = subprocess.Popen(
            command, cwd="/", user=NOBODY, group=NOBODY, extra_groups=[],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        ending.callback(stranger.kill)

        def end():
            told = json.loads(stranger.communicate(timeout=PATIENCE_S)[0])
            assert told["uid"] == NOBODY
            return told["read"], told["followers"], ran.exists()

        yield port, end


def test_impostor_in_torchruns_store_finds_no_secret_and_no_follower(cli, impostor):
    port, end = impostor
    arms = ["env:BENCHKIT_SUITES=no.such", "plain"]  # the first run is refused: the comparison is over at once
    ours = ["-m", "benchkit", "compare", *arms, "+suite=allreduce", "measure=quick", "join_timeout_s=15"]
    done = torchrun(cli, port, "--nproc-per-node=2", *ours)
    _, err = done.communicate(timeout=PATIENCE_S)
    assert end() == ([], 0, False), err
    assert list(cli.folder.glob("outputs/compare_*/compare.json"))  # the agents met


@pytest.mark.parametrize("secret", ["", "a secret of these agents"])
def test_agents_without_shared_folder_need_secret(cli, impostor, tmp_path, secret):
    """Two hosts by torchrun: the store tells the address and no secret, and nobody follows the impostor."""
    port, end = impostor
    variables = {"BENCHKIT_SECRET": secret} if secret else {}
    ours = ["-m", "benchkit", "+suite=allreduce", "data_size=0.01", "measure=quick", "join_timeout_s=20"]
    nodes = []
    for index in range(2):
        (tmp_path / str(index)).mkdir()
        place = ["--nnodes=2", f"--node-rank={index}", "--master-addr=127.0.0.1", "--nproc-per-node=1"]
        nodes.append(torchrun(cli, port, *place, *ours, cwd=tmp_path / str(index), **variables))
    ended = ends(nodes)
    read, followers, ran = end()
    assert (followers, ran) == (0, False)
    assert read
    assert "a secret" not in "".join(read)
    if not secret:
        for code, _, err in ended:
            assert code != 0
            assert "BENCHKIT_SECRET=" in err
            assert "trust_network=true" in err
            assert "exitcode  : 2" in err


def test_ranks_listen_only_on_loopback(cli, host):
    if os.geteuid():
        pytest.skip("network namespaces need root")
    process = cli.start("+suite=faulty", "fault=hang", "timeout_s=600", "private_network=false", under=host)
    assert wait_until(lambda: (cli.folder / "outputs/latest/0/rank_1.log").exists())
    listening = lambda: subprocess.run(  # noqa: E731
        [*host, "ss", "--no-header", "--listening", "--tcp", "--numeric"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert wait_until(lambda: len(listening()) == 2)
    assert all(line.split()[3].startswith("127.0.0.1:") for line in listening())
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


def test_sweep_ignores_lock_of_other_user(cli, python):
    name = f"benchkit-test-stranger-{os.getpid()}"
    with subprocess.Popen([python, "-c", HOLDER, name], cwd="/", user=NOBODY, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout.readline() == b"holds\n"
        variables = {LOCK_VARIABLE: name}
        done = cli("+suite=faulty", "-m", "fault=none", "seed=1,2", "measure=quick", "host_wait_s=1", **variables)
        stranger.kill()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"process {stranger.pid} of" in done.stdout
    for record in cli.records():
        assert record["status"] == "ok"
        assert f"process {stranger.pid} of" in record["warnings"][0]
    assert cli.records()[1]["phases_s"]["wait_for_host"] < 0.5  # who kept it too long once is not waited for again


def test_own_host_lock_fails_point(cli, python):
    name = f"benchkit-test-own-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as held:
        held.bind("\0" + name)
        held.listen(1)
        done = cli("+suite=faulty", "fault=none", "measure=quick", "host_wait_s=1", **{LOCK_VARIABLE: name})
    assert done.returncode == 1
    [record] = cli.records()
    assert record["status"] == "error"
    assert all(word in record["error"]["message"] for word in (f"process {os.getpid()}", "host_wait_s=1"))


def test_unprivileged_user_makes_network(python):
    allowed = Path("/proc/sys/user/max_user_namespaces")
    if not allowed.exists() or allowed.read_text().strip() == "0":
        pytest.skip("no user namespaces here")
    code = (
        f"import sys; sys.path[:0] = ['.']; from {private_network.__name__} import create_private_network as make; "
        "print(make() is not None)"
    )
    with tempfile.TemporaryDirectory() as copy:  # another user may not enter a checkout in someone's home
        Path(copy).chmod(0o755)
        shutil.copytree(ROOT / "launch", Path(copy, "launch"))
        done = subprocess.run(
            [python, "-B", "-c", code], cwd=copy, user=NOBODY, group=NOBODY, extra_groups=[], check=True,
            capture_output=True, text=True,
        )  # fmt: skip
    assert done.stdout == "True\n"


EDIT = """
import json, sys
path, planted = sys.argv[1:]
manifest = json.load(open(path))
manifest["arguments"] += [f"on_end='id -u > {planted}'"]
json.dump(manifest, open(path, "w"))
"""


@pytest.mark.parametrize("is_shared", [False, True])
def test_commands_that_a_group_may_have_written_run_only_where_it_is_trusted(cli, python, is_shared):
    """A project folder with setgid and umask 002, in which a member changes another one's manifest."""
    team = grp.getgrall()[-1]
    with tempfile.TemporaryDirectory() as project:
        Path(project).chmod(0o755)
        folder, planted = Path(project, "s"), Path(project, "s", "planted")
        swept = ("+suite=allreduce", "-m", "data_size=1KiB,2KiB", "world_size=2", "measure=quick")
        assert cli(*swept, f"hydra.sweep.dir={folder}").returncode == 0
        for path in (folder, folder / "sweep.json"):
            os.chown(path, 0, team.gr_gid)
            path.chmod(path.stat().st_mode | 0o020)
        if is_shared:
            Path(project, MARKER).write_text(team.gr_name)
        member = [python, "-c", EDIT, folder / "sweep.json", planted]
        subprocess.run(member, check=True, cwd="/", user=NOBODY, group=team.gr_gid, extra_groups=[])
        done = cli("--resume", str(folder))
        assert (done.returncode, planted.exists()) == ((0, True) if is_shared else (2, False)), done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("owner", "mode"), [(NOBODY, 0o755), (0, 0o777), (0, 0o1777)])
def test_sweep_in_a_folder_of_another_user_writes_nothing(cli, owner, mode):
    folder = cli.folder / "theirs"
    (folder / "0").mkdir(parents=True)
    for name in ("0/rank_0.log", "benchkit.log", "multirun.yaml", "sweep.json"):
        (folder / name).symlink_to(cli.folder / f"made-by-{Path(name).stem}")
    os.chown(folder, owner, -1)
    folder.chmod(mode)
    done = cli("+suite=allreduce", "-m", "data_size=1KiB,2KiB", "measure=quick", f"hydra.sweep.dir={folder}")
    assert done.returncode == 2
    assert not list(cli.folder.glob("made-by-*"))
    assert len(done.stderr.splitlines()) == 1
