"""Where ranks meet: nothing of one point is left for the next, and nothing gives up before the point does."""

from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist
from benchkit.point import forming
from benchkit.point.agents import AgentGroup
from benchkit.point.forming import form_group
from benchkit.rank import backends
from benchkit.rank.assignment import Place
from benchkit.rank.rendezvous import Rendezvous
from launch.agents.group import alone

from tests.support.configs import agent_group, config

LEFT = "exception_dump"
"""What NCCL's watchdog writes without the prefix of its group (ProcessGroupNCCL.hpp, kStoreDumpKey)."""


@pytest.mark.parametrize("several_hosts", [True, False])
def test_points_share_no_key(several_hosts, monkeypatch):
    group = AgentGroup(alone(), {}) if several_hosts else form_group(alone())
    found = []
    for _ in range(2):
        with group.rendezvous() as rendezvous:
            for name, value in rendezvous.environment().items():
                monkeypatch.setenv(name, value)
            store = rendezvous.store()
            found.append(store.check([LEFT]))
            store.set(LEFT, "rank 1")
    assert found == [False, False]


def test_torch_still_leaves_key():
    header = Path(dist.__file__).parents[1] / "include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
    assert f'kStoreDumpKey = "{LEFT}"' in header.read_text()


class Recorded:
    """torch.distributed and a store that tell what is asked of them, in order."""

    def __init__(self):
        self.calls = []

    def is_backend_available(self, name):
        return True

    def init_process_group(self, name, *, store, timeout, **_):
        self.calls.append(("init", store is self, timeout))

    def set_timeout(self, timeout):
        self.calls.append(("store", timeout))


def test_store_waits_as_long_as_groups(monkeypatch):
    """A communicator is made at the first collective, through the store; ranks may come minutes apart."""
    recorded = Recorded()
    monkeypatch.setattr(backends, "dist", recorded)
    monkeypatch.setattr(Rendezvous, "store", lambda self: recorded)
    backends.join(config(timeout_s=600.0), Place(0, 0, 2, 0), 2, Rendezvous())
    limit = timedelta(seconds=660)
    assert recorded.calls == [("init", True, limit), ("store", limit)]


def environment_of(monkeypatch, rendezvous, **variables):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return rendezvous.environment().get("GLOO_SOCKET_IFNAME")


def test_gloo_is_told_its_interface(monkeypatch):
    one_host = Rendezvous(file="/nowhere")
    assert environment_of(monkeypatch, one_host) == "lo"
    several = Rendezvous(host="n0", port=1, interface="eth1")
    assert environment_of(monkeypatch, several) == "eth1"
    assert environment_of(monkeypatch, Rendezvous(host="n0", port=1)) is None
    for each in (one_host, several):
        assert environment_of(monkeypatch, each, GLOO_SOCKET_IFNAME="ib0") is None


@pytest.mark.parametrize(
    ("of_agents", "leads_out", "told"),
    [(["", "eth1", "eth2"], False, "eth1"), (["eth0", "", "eth2"], False, "eth0"), (["", "", ""], True, "")],
)
def test_agents_of_one_host_share_interface(monkeypatch, of_agents, leads_out, told):
    """The first has only a connection to agent 0 of its own host."""
    agents = agent_group("n1", "n1", "n2").agents
    monkeypatch.setattr(forming.interface, "name_leads_out", lambda: leads_out)
    monkeypatch.setattr(forming.interface, "outer_interface", lambda connections: of_agents[0])
    monkeypatch.setattr(agents, "exchange", lambda own, timeout_s: [own, *of_agents[1:]])
    assert forming.gloo_interface(agents) == told
