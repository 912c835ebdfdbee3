import os
import subprocess
import sys
import threading
import time

from launch.host_lock import LOCK_VARIABLE, HostLock
from tests.support.cli import ROOT, wait_until

HOLDER = """
import sys, time
from launch.host_lock import HostLock
lock = HostLock(sys.argv[1])
lock.acquire(lambda pid: print("waits for", pid, flush=True))
print("holds", flush=True)
time.sleep(60)
"""


def holder(name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", HOLDER, name], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_one_holds_it_the_next_waits_knows_for_whom_and_gets_it_when_that_one_is_killed():
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


def test_it_is_given_back_and_many_may_wait():
    name = f"benchkit-test-many-{os.getpid()}"
    order: list[int] = []

    def take(number: int) -> None:
        lock = HostLock(name)
        lock.acquire(lambda pid: None)
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


def test_to_give_back_what_one_does_not_hold_is_nothing():
    HostLock().release()


def test_the_environment_names_it(monkeypatch):
    monkeypatch.setenv(LOCK_VARIABLE, "of-a-test")
    ours, theirs, said = HostLock("of-a-test"), HostLock(), []
    ours.acquire(lambda pid: None)
    waiting = threading.Thread(target=lambda: theirs.acquire(said.append))
    waiting.start()
    assert wait_until(lambda: said == [os.getpid()])
    monkeypatch.setenv(LOCK_VARIABLE, "n" * 1000)
    other = HostLock()
    other.acquire(said.append)  # another name: nobody to wait for
    assert said == [os.getpid()]
    ours.release()
    waiting.join()
    for lock in (theirs, other):
        lock.release()
