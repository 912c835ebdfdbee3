"""Where ranks meet: nothing of one point is left for the next, and nothing gives up before the point does."""

from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist
from benchkit.point.agents import AgentGroup, form_group
from benchkit.rank import backends
from benchkit.rank.assignment import Place
from benchkit.rank.rendezvous import Rendezvous
from launch.agents.group import alone

from tests.support.configs import config

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
            store = rendezvous.store().underlying_store
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
    backends.join(config(timeout_s=600.0), Place(0, 0, 2, 0), 2, Rendezvous("point/0"))
    limit = timedelta(seconds=660)
    assert recorded.calls == [("init", True, limit), ("store", limit)]
