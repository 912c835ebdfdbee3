"""A connection between agents whose other end stops, drips, says nonsense or does not read."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from launch.agents import channel
from launch.agents.channel import Channel, PeerLost
from launch.framing import HEAD, framed


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
    [*map(framed, (b"[" * 60_000, b"1", b"[1]", b"\xff", b"")), HEAD.pack(1 << 40)],
)
def test_receive_rejects_malformed_message(ends, message):
    wire, there = ends
    there.sendall(message)
    with pytest.raises(PeerLost):
        wire.receive(10)


def test_receive_detects_hang_up_mid_message(ends):
    wire, there = ends
    there.sendall(framed(b'["value", 1]')[:-1])
    there.shutdown(socket.SHUT_RDWR)
    with pytest.raises(PeerLost) as gone:
        wire.receive(10)
    assert not gone.value.silently


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
    with pytest.raises(ValueError, match=r"value: \d+ bytes for another agent; allowed are 100"):
        ends[0].send("value", "x" * 100)


def test_receive_distinguishes_silent_from_closed(ends):
    wire, there = ends
    with pytest.raises(PeerLost) as gone:
        wire.receive(0.01)
    assert gone.value.silently
    there.close()
    time.sleep(0.01)
    with pytest.raises(PeerLost) as gone:
        wire.receive(10)
    assert not gone.value.silently
