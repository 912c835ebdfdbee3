"""Joins the agents of one start; agent 0 prints where their secret stood meanwhile, as JSON."""

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launch.launcher_env import detect_launcher

from tests.support.entries.agents import Address, AgentRendezvous, connect_agents

told: dict[str, Any] = {}
listening = AgentRendezvous.listen


@contextmanager
def watched(rendezvous: AgentRendezvous) -> Iterator[tuple[list[socket.socket], Address]]:
    with listening(rendezvous) as (listeners, address):
        note(address)
        yield listeners, address


def note(address: Address) -> None:
    files = list(Path.cwd().glob("meet/.agents*"))
    told["modes"] = [path.stat().st_mode & 0o777 for path in files]
    told["in_file"] = [json.loads(path.read_text())["token"] == address.token for path in files]
    told["token"] = address.token


started = detect_launcher()
AgentRendezvous.listen = watched  # type: ignore[method-assign]
told |= {"by": started.launcher, "job": started.job, "local": started.is_one_host}
agents = connect_agents(started, {}, Path("meet"), 60)
told["agents"] = agents.all_gather(len(agents.members), list[int], 60)
told["left"] = [path.name for path in Path.cwd().glob("meet/.agents*")]
if agents.first:
    print(json.dumps(told), flush=True)
agents.all_gather(None, list[None], 60)
sys.exit(0)
