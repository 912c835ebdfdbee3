"""A connection between agents whose other end stops, drips, says nonsense or does not read; and their one clock."""

import socket
import threading
from collections.abc import Iterator
from random import Random

import pytest
from launch.framing import HEAD, add_length

from tests.support.entries.agents import (
    Channel,
    Offset,
    OffsetEstimate,
    OffsetTracker,
    PeerLost,
    channel,
    shortest_round_trip,
)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    """A wire and the bare other end of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = socket.create_connection(listener.getsockname())
        wire = Channel(listener.accept()[0])
    yield wire, there
    wire.close()
    there.close()


def test_messages_arrive_whole_and_in_order(ends):
    wire, there = ends
    other = Channel(there)
    sent = [["x" * 300_000, 1], {"a": None}, 2.5]
    thread = threading.Thread(target=lambda: [wire.send("value", value) for value in sent])
    thread.start()
    assert [other.receive(10) for _ in sent] == [("value", value) for value in sent]
    thread.join()


def test_receive_times_out_on_dripping_peer(ends, monkeypatch):
    monkeypatch.setattr(channel, "WHOLE_S", 0.5)
    wire, there = ends
    over = threading.Event()

    def drip() -> None:
        there.sendall(HEAD.pack(1000))
        while not over.wait(0.05):
            there.sendall(b" ")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(PeerLost) as gone:
            wire.receive(10)
    finally:
        over.set()
        thread.join()
    assert gone.value.silently


@pytest.mark.parametrize(
    "message",
    [*map(add_length, (b"[" * 60_000, b"[1]", b"\xff", b"")), HEAD.pack(1 << 40)],
)
def test_receive_rejects_malformed_message(ends, message):
    wire, there = ends
    there.sendall(message)
    with pytest.raises(PeerLost):
        wire.receive(10)


def test_peer_that_does_not_read_is_lost(ends, monkeypatch):
    monkeypatch.setattr(channel, "WHOLE_S", 0.3)
    wire, _ = ends
    wire.send("value", "x" * (1 << 25))
    with pytest.raises(PeerLost) as gone:
        wire.receive(10)
    assert gone.value.silently


def test_send_completes_interrupted_message(ends, monkeypatch):
    wire, there = ends

    class Told(Exception):
        pass

    def told(*_):
        raise Told

    with monkeypatch.context() as patch:
        patch.setattr(channel, "is_writable", told)
        with pytest.raises(Told):
            wire.send("value", "x" * (1 << 24))
    other, received = Channel(there), []
    thread = threading.Thread(target=lambda: received.extend(other.receive(10) for _ in range(2)))
    thread.start()
    wire.send("stop", 1)
    thread.join()
    assert received == [("value", "x" * (1 << 24)), ("stop", 1)]


def test_send_refuses_oversized_message(ends, monkeypatch):
    monkeypatch.setattr(channel, "MESSAGE_BYTES", 100)
    with pytest.raises(ValueError, match="100"):
        ends[0].send("value", "x" * 100)


def test_receive_distinguishes_silent_from_closed(ends):
    wire, there = ends
    with pytest.raises(PeerLost) as gone:
        wire.receive(0.01)
    assert gone.value.silently
    there.sendall(add_length(b'["value", 1]')[:-1])
    there.close()
    with pytest.raises(PeerLost) as gone:
        wire.receive(10)
    assert not gone.value.silently


def test_best_uses_shortest_round_trip():
    answers = [(10.0, 510.5, 10.9), (11.0, 511.05, 11.1), (12.0, 512.9, 13.0)]
    estimate = shortest_round_trip(answers)
    assert estimate.offset_s == pytest.approx(500.0)
    assert estimate.here_s == pytest.approx(11.05)
    assert estimate.error_s == pytest.approx(0.05)


def test_tracker_fits_linear_drift():
    tracker = OffsetTracker([OffsetEstimate(100.0, 5.0, 1e-4), OffsetEstimate(200.0, 5.001, 1e-4)])
    offset = tracker.offset()
    assert offset.drift == pytest.approx(1e-5)
    assert offset.at(300.0) == pytest.approx(5.002)
    tracker.estimates.append(OffsetEstimate(300.0, 5.0025, 2e-4))
    assert tracker.error_s(offset) == pytest.approx(2e-4 + 5e-4)  # half a round trip, and how far the line missed


@pytest.mark.parametrize("span_s", [0.01, 2.0, 300.0])
def test_errors_of_estimates_are_no_drift(span_s):
    """A line through two of them would miss by milliseconds in five minutes."""
    error_s, random = 5e-5, Random(0)
    for _ in range(100):
        looks = [OffsetEstimate(100.0 + at, 5.0 + random.uniform(-error_s, error_s), error_s) for at in (0.0, span_s)]
        offset = OffsetTracker(looks).offset()
        assert abs(offset.at(100.0 + span_s + 300.0) - 5.0) <= error_s


def test_tracker_follows_drift_once_it_shows():
    drift, error_s, random = 2e-5, 5e-5, Random(0)
    for _ in range(100):
        looks = [OffsetEstimate(at, at * drift + random.uniform(-error_s, error_s), error_s) for at in (0.0, 100.0)]
        assert OffsetTracker(looks).offset().at(200.0) == pytest.approx(200.0 * drift, abs=3 * error_s)


def test_shared_clock_has_zero_offset():
    assert OffsetTracker().offset() == Offset()
    assert Offset().at(1e6) == 0.0
    assert OffsetTracker().error_s(Offset()) == 0.0
