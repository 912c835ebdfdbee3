"""Agents in threads of one process, over real connections."""

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import connection
from pathlib import Path
from typing import Any

import pytest
from launch.launcher_env import LaunchContext
from launch.signals import StopRequested

from tests.support.entries.agents import (
    Agents,
    JoinError,
    Lost,
    SweepEnds,
    connect_agents,
    handshake,
    single_agent,
    write_private_file,
)

TRAITS = {"version": "1"}


def together(count: int, folder: Path, act: Callable[[Agents], Any], job: str = "j", traits=None) -> list[Any]:
    """Joins `count` agents and lets each act; returns what each returned, or the exception that it met."""
    results: list[Any] = [None] * count

    def live(index: int) -> None:
        try:
            agents = connect_agents(
                LaunchContext("srun", index, count, job), (traits or {}).get(index, TRAITS), folder, 5.0
            )
            results[index] = act(agents)
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=live, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return results


def test_exchange_returns_values_in_order(tmp_path):
    results = together(
        4, tmp_path, lambda agents: [agents.all_gather(agents.me.index * 10, list[int], 5) for _ in range(3)]
    )
    assert results == [[[0, 10, 20, 30]] * 3] * 4


def test_single_agent_needs_no_peers():
    agents = single_agent()
    assert agents.first
    assert agents.connections == []
    assert agents.all_gather("x", list[str], 1) == ["x"]
    agents.alarm("signal")
    assert agents.hear([]) is None
    agents.wait_for_end()


def test_wait_for_end_times_out(tmp_path):
    silence = threading.Event()

    def act(agents: Agents):
        if agents.first:
            silence.wait(10)
            return None
        with pytest.raises(SweepEnds):
            agents.wait_for_end(0.2)
        silence.set()

    assert together(2, tmp_path, act) == [None, None]


def test_alarm_reaches_all_other_agents(tmp_path):
    def act(agents: Agents):
        heard = None
        if agents.me.index == 2:
            agents.alarm("signal")
        else:
            heard = agents.hear(connection.wait(agents.connections, 5))
        return heard, agents.all_gather(agents.me.index, list[int], 5)

    assert together(3, tmp_path, act) == [("signal", [0, 1, 2]), ("signal", [0, 1, 2]), (None, [0, 1, 2])]


def test_exchange_drops_lost_agent(tmp_path):
    def act(agents: Agents):
        if agents.me.index == 1:
            agents._channels[0].close()
            return None
        with pytest.raises(Lost) as lost:
            agents.all_gather("x", list[str], 5)
        [gone] = lost.value.members
        return gone.index, lost.value.host_is_silent, agents.all_gather(agents.me.index, list[int], 5)

    first, _, last = together(3, tmp_path, act)
    assert first == last == (1, False, [0, 2])


def test_exchange_drops_silent_node(tmp_path):
    silence = threading.Event()

    def act(agents: Agents):
        if agents.me.index == 1:
            silence.wait(10)
            return None
        with pytest.raises(Lost) as lost:
            agents.all_gather("x", list[str], 0.3)
        silence.set()
        return lost.value.host_is_silent

    assert together(2, tmp_path, act)[0] is True


def test_lost_agent_0_ends_sweep(tmp_path):
    def act(agents: Agents):
        if agents.first:
            for wire in agents._channels.values():
                wire.close()
            return None
        return agents.all_gather("x", list[str], 5)

    assert isinstance(together(2, tmp_path, act)[1], SweepEnds)


@pytest.mark.parametrize("who", [0, 1])
def test_stop_reaches_all_agents(tmp_path, golden, who):
    def act(agents: Agents):
        if agents.me.index == who:
            agents.stop(StopRequested(15, "preempted"))
            return None
        agents.all_gather("x", list[str], 5)

    stopped = [error for error in together(3, tmp_path, act) if isinstance(error, StopRequested)]
    assert len(stopped) == 2
    golden(str(stopped[0]))
    assert {(error.number, error.status, error.relayed) for error in stopped} == {(15, "preempted", True)}


def test_ping_pong_orders_timestamps(tmp_path):
    def act(agents: Agents):
        if agents.first:
            return agents.pong(agents.members[1], 8)
        return agents.ping(8)

    for sent, there, received in together(2, tmp_path, act)[1]:
        assert sent <= there <= received


def test_join_names_differing_trait(tmp_path, golden):
    errors = together(2, tmp_path, lambda agents: None, traits={1: {"version": "2"}})
    assert [type(error) for error in errors] == [JoinError] * 2
    [said] = {str(error) for error in errors}
    golden(said)
    assert not list(tmp_path.iterdir())


def test_stale_address_does_not_mislead(tmp_path, monkeypatch):
    """Agent 1 finds the file of a start that was killed, which leads to somebody else's port, until agent 0 comes."""
    monkeypatch.setattr(handshake, "HELLO_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as stranger, ThreadPoolExecutor(2) as pool:
        stale = {"hosts": ["127.0.0.1"], "port": stranger.getsockname()[1], "network": "", "token": "old"}
        write_private_file(tmp_path / ".agents-srun-j", json.dumps(stale))
        started = [LaunchContext("srun", index, 2, "j") for index in range(2)]
        second = pool.submit(connect_agents, started[1], TRAITS, tmp_path, 15)
        time.sleep(0.5)
        first = pool.submit(connect_agents, started[0], TRAITS, tmp_path, 15)
        assert [len(agents.result().members) for agents in (first, second)] == [2, 2]


@pytest.mark.parametrize("port", ["taken", "abc", "0", "65536", "²", "-1"])
def test_join_refuses_taken_or_invalid_port(tmp_path, monkeypatch, port):
    with socket.create_server(("", 0)) as taken:
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("MASTER_PORT", str(taken.getsockname()[1]) if port == "taken" else port)
        with pytest.raises(JoinError, match="port"):
            connect_agents(LaunchContext("srun", 0, 2, "j"), TRAITS, tmp_path, 1)
