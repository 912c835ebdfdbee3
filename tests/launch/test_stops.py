"""Signals that the kernel gives to another thread than the one that waits."""

import signal
import threading
import time
from multiprocessing import Pipe

import pytest

from launch.stops import Stopped, wait_for


@pytest.fixture
def stopping():
    def stop(number, frame):
        raise Stopped(number)

    before = signal.signal(signal.SIGUSR2, stop)
    yield
    signal.signal(signal.SIGUSR2, before)


def test_a_signal_that_another_thread_caught_ends_the_waiting(stopping):
    ours, _theirs = Pipe()
    other = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR2))
    other.start()
    began = time.monotonic()
    with pytest.raises(Stopped):
        wait_for([ours], 20)
    other.join()
    assert time.monotonic() - began < 10


def test_a_signal_that_means_nothing_leaves_the_waiting_as_it_was():
    before = signal.signal(signal.SIGUSR2, lambda number, frame: None)
    try:
        signal.raise_signal(signal.SIGUSR2)
        assert wait_for([], 0.05) == []
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_what_is_ready_is_returned():
    ours, theirs = Pipe()
    theirs.send("here")
    assert wait_for([ours], 5) == [ours]
