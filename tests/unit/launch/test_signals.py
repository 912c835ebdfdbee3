"""Signals that the kernel gives to another thread than the one that waits."""

import signal
import threading
import time
from multiprocessing import Pipe

import pytest
from launch.signals import StopRequested, defer_signals, wait_readable

from tests.support.cli import PATIENCE_S


@pytest.fixture
def stopping():
    def stop(number, frame):
        raise StopRequested(number)

    before = signal.signal(signal.SIGUSR2, stop)
    yield
    signal.signal(signal.SIGUSR2, before)


def test_wait_for_ends_on_signal_in_other_thread(stopping):
    ours, _theirs = Pipe()
    other = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR2))
    other.start()
    began = time.monotonic()
    with pytest.raises(StopRequested):
        wait_readable([ours], 20)
    other.join()
    assert time.monotonic() - began < 10


@pytest.fixture
def ignoring():
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGUSR2, before)


def test_wait_for_continues_after_handled_signal(ignoring):
    signal.signal(signal.SIGUSR2, lambda number, frame: None)
    signal.raise_signal(signal.SIGUSR2)
    assert wait_readable([], 0.05) == []


def test_wait_for_returns_ready_connection():
    ours, theirs = Pipe()
    theirs.send("here")
    assert wait_readable([ours], 5) == [ours]


def caught_by_a_thread():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)


def test_defer_signals_covers_other_threads(stopping):
    done = []
    with pytest.raises(StopRequested):  # noqa: PT012 (that it comes at the end is the point)
        with defer_signals():
            library = threading.Thread(target=caught_by_a_thread)
            library.start()
            library.join()
            time.sleep(0.01)
            done.append("quit")
        done.append("not reached")
    assert done == ["quit"]
    with pytest.raises(StopRequested):
        signal.raise_signal(signal.SIGUSR2)  # the handler is back


def test_defer_signals_keeps_ignored_signal(ignoring):
    with defer_signals():
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
        signal.raise_signal(signal.SIGUSR2)


@pytest.mark.parametrize(("ignored", "heard"), [(["HUP"], "SIGTERM"), ([], "SIGHUP")])
def test_nohup_process_ignores_hangup(cli, ignored, heard):
    nohup = ["sh", "-c", f'trap "" {ignored[0]}; exec "$@"', "sh"] if ignored else []
    process = cli.start(module="tests.support.told_to_stop", under=nohup)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    if ignored:
        process.send_signal(signal.SIGTERM)  # whichever the kernel delivers first
    assert process.communicate(timeout=PATIENCE_S) == (f"{heard}\n", "")
