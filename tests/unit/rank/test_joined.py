"""What a rank keeps from point to point."""

from types import SimpleNamespace

import pytest
import torch
from benchkit.rank import backends, joined
from benchkit.rank.rendezvous import Rendezvous

from tests.support import configs


@pytest.fixture
def calls(monkeypatch):
    """Joins a group that only notes what is asked of it; a process begins with none."""
    made = []
    group = SimpleNamespace(exchange=lambda own: [own, own], first_reason=None)
    monkeypatch.setattr(joined, "_joined", {})
    monkeypatch.setattr(backends, "join", lambda *_: made.append("join") or torch.device("cpu"))
    monkeypatch.setattr(backends, "control_group", lambda timeout: None)
    monkeypatch.setattr(backends, "warm_up", lambda device: made.append("warm up"))
    monkeypatch.setattr(backends, "side_group", lambda name, *_: made.append(name) or name)
    monkeypatch.setattr(joined, "ControlGroup", lambda handle, world_size: group)
    monkeypatch.setattr(joined, "gather_devices", lambda *_: None)
    monkeypatch.setattr(joined.gc, "freeze", lambda: None)  # of the tests' own process
    return made


def assignment(where="/proc/1/fd/3"):
    place = SimpleNamespace(rank=0)
    return SimpleNamespace(
        config=configs.config(), place=place, world_size=2, threads=1, slowdown=(1.0, 1.0),
        rendezvous=Rendezvous(file=where), idle_pids=(),
    )  # fmt: skip


def test_rank_joins_once_for_all_points(calls):
    first = joined.joined(assignment())
    assert joined.joined(assignment()) is first
    assert calls == ["join", "warm up"]


@pytest.mark.parametrize(("device", "by_mps"), [("cuda", True), ("cpu", False)])
def test_mps_server_counts_where_ranks_are_its_clients(calls, monkeypatch, device, by_mps):
    told = []
    monkeypatch.setattr(joined, "gather_devices", lambda *given: told.append(given[-1]))
    asked = assignment()
    asked.config, asked.slowdown = configs.config(device=device), (1.0, 2.0)
    joined.joined(asked)
    assert told == [by_mps]


def test_other_rendezvous_is_joined_anew(calls):
    assert joined.joined(assignment()) is not joined.joined(assignment("/proc/1/fd/4"))


def test_side_groups_are_made_once(calls):
    kept = joined.joined(assignment())
    assert [kept.side_group("ucc", assignment()) for _ in range(2)] == ["ucc", "ucc"]
    assert calls.count("ucc") == 1


def test_rank_use_counts_points_and_memory(calls):
    kept = joined.joined(assignment())
    uses = [kept.begin_point() for _ in range(3)]
    assert [use.points_before for use in uses] == [0, 1, 2]
    assert all(len(use.host_bytes) == 2 and min(use.host_bytes) > 1e6 for use in uses)
    assert uses[0].device_bytes == [0, 0]


def test_compiled_code_is_forgotten_between_points(calls, monkeypatch):
    resets = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: resets.append("reset"))
    monkeypatch.setitem(joined.sys.modules, "torch._dynamo", SimpleNamespace())
    joined.joined(assignment())
    assert resets == []
    joined.joined(assignment())
    assert resets == ["reset"]
