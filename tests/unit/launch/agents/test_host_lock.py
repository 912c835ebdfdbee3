import errno
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.support.cli import ROOT, wait_until
from tests.support.entries.agents import LOCK_VARIABLE, Holder, HostLock, HostTaken, host_lock

HOLDER = """
import sys, time
from launch.agents.host_lock import HostLock
lock = HostLock(sys.argv[1])
lock.acquire(lambda holder: print("waits for", holder.pid, flush=True))
print("holds", flush=True)
time.sleep(60)
"""


def holder(name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", HOLDER, name], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_lock_passes_on_when_holder_is_killed():
    name = f"test-{os.getpid()}"
    with holder(name) as first:
        assert first.stdout.readline() == "holds\n"
        with holder(name) as second:
            assert second.stdout.readline() == f"waits for {first.pid}\n"
            time.sleep(0.2)
            assert second.poll() is None
            first.kill()
            assert second.stdout.readline() == "holds\n"
            second.kill()


def test_lock_serves_many_waiters():
    name = f"benchkit-test-many-{os.getpid()}"
    order: list[int] = []

    def take(number: int) -> None:
        lock = HostLock(name)
        lock.acquire(lambda holder: None)
        order.append(number)
        time.sleep(0.01)
        assert order[-1] == number  # nobody came in between
        lock.release()

    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    assert wait_until(lambda: len(order) == 8)
    for thread in threads:
        thread.join()


def test_environment_sets_lock_name(monkeypatch):
    monkeypatch.setenv(LOCK_VARIABLE, "of-a-test")
    ours, theirs, said = HostLock("of-a-test"), HostLock(), []
    ours.acquire(lambda holder: None)
    waiting = threading.Thread(target=lambda: theirs.acquire(lambda holder: said.append(holder.pid)))
    waiting.start()
    assert wait_until(lambda: said == [os.getpid()])
    monkeypatch.setenv(LOCK_VARIABLE, "n" * 1000)
    other = HostLock()
    other.acquire(lambda holder: said.append(holder.pid))  # another name: nobody to wait for
    assert said == [os.getpid()]
    ours.release()
    waiting.join()
    for lock in (theirs, other):
        lock.release()


def test_host_taken_names_holder(golden):
    name = f"benchkit-test-named-{os.getpid()}"
    with holder(name) as first:
        assert first.stdout.readline() == "holds\n"
        with pytest.raises(HostTaken) as taken:
            HostLock(name).acquire(lambda holder: None, limit=lambda holder: 0.2)
        first.kill()
    assert taken.value.holder.pid == first.pid
    golden(str(taken.value), {r"user \w+ \(.*python.*\)": "user USER (COMMAND)"})


def test_acquire_times_out_on_silent_holder():
    name = f"benchkit-test-deaf-{os.getpid()}"
    used = time.process_time()
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind("\0" + name)
        with pytest.raises(HostTaken) as caught:
            HostLock(name).acquire(lambda holder: None, limit=lambda holder: 1.0)
    assert caught.value.holder == Holder()
    assert not caught.value.holder.is_ours
    assert time.process_time() - used < 0.5
    lock = HostLock(name)
    lock.release()  # of nothing
    lock.acquire(lambda holder: None)
    lock.release()


def test_acquire_times_out_on_full_queue():
    name = f"benchkit-test-full-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as mine:
        mine.bind("\0" + name)
        mine.listen(1)
        others = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for other in others:
            other.setblocking(False)
            other.connect_ex("\0" + name)
        with pytest.raises(HostTaken):
            HostLock(name).acquire(lambda holder: None, limit=lambda holder: 0.5)
        for other in others:
            other.close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_lack_of_resources_is_no_refusal_of_the_lock(monkeypatch, number):
    """What is measured without the lock is disturbed; here a later try may get it."""

    def lacking(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(host_lock.socket, "socket", lacking)
    with pytest.raises(OSError, match=os.strerror(number)) as raised:
        HostLock(f"benchkit-test-lack-{os.getpid()}").acquire(lambda holder: None)
    assert raised.value.errno == number
