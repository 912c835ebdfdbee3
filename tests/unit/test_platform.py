"""A call that the kernel, a sandbox, a file system or Python lacks is gone round, or named."""

import errno
import fcntl
import os
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from analysis.records import derive
from benchkit import environment
from benchkit.record import files
from benchkit.selftest import runs
from launch.host import affinity_cores

from tests.support.configs import agent_group, config
from tests.support.entries.agents import Channel, Holder, HostLock, HostTaken
from tests.support.entries.point import point_folder, ranks
from tests.support.entries.rank import assignment, devices, session

LACKS = [errno.ENOSYS, errno.EPERM]


@pytest.fixture
def deny(monkeypatch):
    """Lets a function fail with an error, or its module lose its name."""

    def denied(module, name, number):
        def refuse(*_):
            raise OSError(number, os.strerror(number))

        if number is None:
            monkeypatch.delattr(module, name)
        else:
            monkeypatch.setattr(module, name, refuse)

    return denied


@pytest.mark.parametrize("number", [None, *LACKS])
def test_ranks_meet_in_nameless_file_without_memory_file(deny, number):
    deny(os, "memfd_create", number)
    with assignment.memory_file() as file:
        assert file.can_be_opened()
        assert os.stat(file.path).st_nlink == 0
        assert os.stat(file.path).st_mode & 0o077 == 0
    assert not file.can_be_opened()


def test_spawned_ranks_need_no_fork_server(monkeypatch):
    """They are a way where the kernel refuses its socket."""
    started = []
    monkeypatch.setattr(ranks.fork_server, "start_fork_server", started.append)
    ranks.preload_fork_server([config(suite="collective", start_method="spawn")])
    assert started == []
    ranks.preload_fork_server([config(suite="collective", start_method=method) for method in ("spawn", "forkserver")])
    assert len(started) == 1


@pytest.mark.parametrize("number", [*LACKS, errno.ENOLCK])
def test_file_without_locks_is_no_place_to_meet(deny, number):
    with assignment.memory_file() as file:
        deny(fcntl, "flock", number)
        assert not file.can_be_opened()


@pytest.mark.parametrize("number", point_folder.NO_LOCKS)
def test_folder_has_one_owner_without_locks(tmp_path, deny, number):
    deny(fcntl, "flock", number)
    with (
        point_folder.claim_folder(tmp_path),
        pytest.raises(point_folder.ConfigError),
        point_folder.claim_folder(tmp_path),
    ):
        raise AssertionError("two owners")
    with point_folder.claim_folder(tmp_path):
        assert (tmp_path / point_folder.FILE_NAME).exists()


@pytest.mark.parametrize(("number", "lives"), [(None, True), (errno.EPERM, True), (errno.ESRCH, False)])
def test_owner_without_locks_lives_while_its_process_does(monkeypatch, deny, number, lives):
    """EPERM: it is another user's."""
    if number:
        deny(os, "kill", number)
    assert point_folder.is_alive(point_folder.this_process()) is lives


def test_folders_of_kernel_that_nobody_may_look_into(monkeypatch):
    forbidden = Path("/sys", "x" * 300)  # an error that is not the lack of a file, to root as well
    monkeypatch.setattr(assignment, "LOOPBACK_INTERFACE", forbidden)
    monkeypatch.setattr(environment, "DRIVERS", (str(forbidden),))
    monkeypatch.setattr(environment, "is_built_for_gpus", lambda: True)
    assert assignment.Rendezvous(file="x").environment() == {"BENCHKIT_MEETING_FILE": "x"}
    assert environment.visible_gpus.__wrapped__().missing_reason == "no driver of GPUs is loaded"


@pytest.mark.parametrize("number", [*files.REFUSED, errno.EIO, errno.ENOSPC])
def test_file_is_whole_where_nothing_is_flushed(tmp_path, deny, number):
    deny(os, "fsync", number)
    if number in files.REFUSED:
        files.write_atomically(tmp_path / "x", b"content")
        assert (tmp_path / "x").read_bytes() == b"content"
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            files.write_atomically(tmp_path / "x", b"content")


@pytest.mark.parametrize(("total", "free", "is_full"), [(0, 0, False), (10**9, 0, True), (10**9, 10**9, False)])
def test_disk_that_counts_no_bytes_is_not_full(tmp_path, monkeypatch, total, free, is_full):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: (total, total - free, free))
    if is_full:
        with pytest.raises(OSError, match="are free"):
            files.require_space(tmp_path)
    else:
        files.require_space(tmp_path)


@pytest.mark.parametrize("number", [*files.REFUSED, errno.EIO])
def test_disk_of_unknown_size_is_used(tmp_path, deny, number):
    deny(shutil, "disk_usage", number)
    if number in files.REFUSED:
        files.require_space(tmp_path)
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            files.require_space(tmp_path)


@pytest.mark.parametrize("number", [None, *LACKS])
def test_all_cores_count_without_affinity(deny, monkeypatch, number):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    deny(os, "sched_getaffinity", number)
    assert (affinity_cores(), derive.usable_processes()) == ([0, 1, 2], 3)


@pytest.mark.parametrize("number", LACKS)
def test_process_that_may_not_move(deny, monkeypatch, number):
    """The selftest names the call; a rank stays where it is."""
    cores = affinity_cores()
    monkeypatch.setattr(devices.gpus, "cores_of_node", lambda node: set(cores))
    monkeypatch.setattr(devices, "all_gather_json", lambda own, handle: [own])
    monkeypatch.setattr(devices.torch, "get_num_threads", lambda: 1)
    group = SimpleNamespace(handle=None)
    assert devices.bind_to_numa_node(0, "n1", group) == cores
    deny(os, "sched_setaffinity", number)
    assert devices.bind_to_numa_node(0, "n1", group) == []
    with pytest.raises(runs.SelftestFailed, match="sched_setaffinity"):
        runs.measure_cores(0.01)


def test_figures_that_kernel_does_not_tell(deny, monkeypatch):
    assert len(environment.load_average()) == 3
    assert session.resident_bytes() > 10**6
    deny(os, "getloadavg", errno.ENOENT)
    monkeypatch.setattr(session, "read_text", lambda path: "")
    assert (environment.load_average(), session.resident_bytes()) == ([], 0)


@pytest.mark.parametrize("number", [*LACKS, errno.EAFNOSUPPORT])
def test_host_without_lock_is_measured_with_warning(deny, number):
    deny(socket, "socket", number)
    with agent_group("n1").lock_hosts(1.0) as warnings:
        assert [os.strerror(number) in text for text in warnings] == [True]


def test_holder_that_kernel_does_not_tell_is_waited_for(monkeypatch):
    lock, told = HostLock(f"benchkit-test-nameless-{os.getpid()}"), []
    lock.acquire(told.append)
    monkeypatch.setattr(socket.socket, "getsockopt", lacking("getsockopt", socket.SO_PEERCRED))
    with pytest.raises(HostTaken):
        HostLock(f"benchkit-test-nameless-{os.getpid()}").acquire(told.append, limit=lambda holder: 0.1)
    assert told == [Holder()]
    lock.release()


def test_channel_goes_without_an_option_of_tcp(monkeypatch):
    """As under the first Windows Subsystem for Linux."""
    monkeypatch.setattr(socket.socket, "setsockopt", lacking("setsockopt", socket.TCP_USER_TIMEOUT))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = Channel(socket.create_connection(listener.getsockname()))
        called = Channel(listener.accept()[0])
    caller.send("hello", 1)
    assert called.receive(10.0) == ("hello", 1)
    caller.close()
    called.close()


def lacking(call: str, option: int):
    """A socket's call that knows an option no more."""
    own = getattr(socket.socket, call)

    def asked(self, level, name, *others):
        if name == option:
            raise OSError(errno.ENOPROTOOPT, os.strerror(errno.ENOPROTOOPT))
        return own(self, level, name, *others)

    return asked
