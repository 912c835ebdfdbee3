"""How a rank joins the others, what it keeps from point to point, and what it finds where it runs."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from benchkit.errors import Unavailable
from launch.host import ResourceLimits

from tests.support import configs
from tests.support.entries import rank
from tests.support.entries.agents import alone
from tests.support.entries.point import AgentGroup
from tests.support.entries.point import agent_group as forming

LEFT = "exception_dump"
"""What NCCL's watchdog writes without the prefix of its group (ProcessGroupNCCL.hpp, kStoreDumpKey)."""
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("several_hosts", [True, False])
def test_points_share_no_key(several_hosts, monkeypatch):
    group = AgentGroup(alone(), {}) if several_hosts else forming.form_group(alone())
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


def test_store_waits_as_long_as_groups(monkeypatch):
    """A communicator is made at the first collective, through the store; ranks may come minutes apart."""
    limits = []
    store = SimpleNamespace(set_timeout=limits.append)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, timeout, **__: limits.append(timeout))
    monkeypatch.setattr(rank.Rendezvous, "store", lambda self: store)
    rank.backends.init_process_group(configs.config(timeout_s=600.0), rank.RankPlace(0, 0, 2, 0), 2, rank.Rendezvous())
    assert limits == [660 * SECOND] * 2


def test_gloo_is_told_its_interface(monkeypatch):
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    one_host, several = rank.Rendezvous(file="/nowhere"), rank.Rendezvous(host="n0", port=1, interface="eth1")
    told = [each.environment().get("GLOO_SOCKET_IFNAME") for each in (one_host, several, rank.Rendezvous("", "n0", 1))]
    assert told == ["lo", "eth1", None]
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    assert not any("GLOO_SOCKET_IFNAME" in each.environment() for each in (one_host, several))
    assert one_host.environment(in_private_network=True)["GLOO_SOCKET_IFNAME"] == "lo"  # it has no other


@pytest.mark.parametrize(
    ("of_agents", "leads_out", "told"),
    [(["", "eth1", "eth2"], False, "eth1"), (["eth0", "", "eth2"], False, "eth0"), (["", "", ""], True, "")],
)
def test_agents_of_one_host_share_interface(monkeypatch, of_agents, leads_out, told):
    """The first has only a connection to agent 0 of its own host."""
    agents = configs.agent_group("n1", "n1", "n2").agents
    monkeypatch.setattr(forming.interfaces, "name_leads_out", lambda: leads_out)
    monkeypatch.setattr(forming.interfaces, "outer_interface", lambda connections: of_agents[0])
    monkeypatch.setattr(agents, "all_gather", lambda own, kind: [own, *of_agents[1:]])
    assert forming.gloo_interface(agents) == told


class FakeUcc:
    """torch.distributed with UCC, which reads its environment at a group's first call."""

    def __init__(self, fault=None):
        self.read, self.fault = [], fault

    def is_backend_available(self, name):
        return True

    def new_group(self, backend, timeout):
        return f"a group over {backend}"

    def all_reduce(self, tensor, group):
        self.read.append([os.environ.get(name) for name in ("UCC_CL_BASIC_TLS", "TORCH_UCC_SHARED_COMM")])
        if self.fault:
            raise RuntimeError(self.fault)


@pytest.fixture
def side_group(monkeypatch):
    def make(name, fault=None, first_reason=lambda reason: reason):
        ucc = FakeUcc(fault)
        monkeypatch.setattr(rank.backends, "dist", ucc)
        return rank.backends.new_side_group(name, torch.device("cpu"), SECOND, first_reason), ucc.read

    return make


def test_side_group_uses_only_its_layer(side_group, monkeypatch):
    monkeypatch.setenv("TORCH_UCC_SHARED_COMM", "1")
    assert side_group("ucc/tl/ucp") == ("a group over ucc", [["ucp", "0"]])
    assert side_group("ucc") == ("a group over ucc", [[None, "1"]])
    assert "UCC_CL_BASIC_TLS" not in os.environ
    assert side_group("default") == (None, [])


def test_gpu_that_refuses_a_rank_is_unavailable_like_a_missing_backend(side_group, monkeypatch, golden):
    def refuse(device):
        raise RuntimeError("CUDA error: device busy\nCompile with")

    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    on_gpu = configs.config(device="cuda"), SimpleNamespace(device_index=1), 1, None
    reasons = []
    for call in (
        lambda: rank.backends.require_built("of_nobody"),
        lambda: rank.backends.init_process_group(*on_gpu),
        lambda: side_group("ucc/tl/ucp", fault="no such transport\nand a trace"),
        lambda: side_group("ucc", first_reason=lambda reason: "only rank 1 lacks it"),
        *[lambda name=name: side_group(name) for name in ("ucc/tl/cuda", "nccl")],
    ):
        with pytest.raises(Unavailable) as refused:
            call()
        reasons.append(str(refused.value))
    golden("\n".join(reasons), {r"torch \S+ here": "torch VERSION here"})
    rank.backends.require_built("gloo")


def test_gpu_without_memory_is_no_lack_of_a_backend(monkeypatch):
    def refuse(device):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    with pytest.raises(torch.OutOfMemoryError):
        rank.backends.init_process_group(configs.config(device="cuda"), SimpleNamespace(device_index=1), 1, None)


@pytest.mark.parametrize(("backend", "connects"), [("nccl", True), ("gloo", False)])
def test_warm_up_connects_nccl(backend, connects, monkeypatch):
    calls = []
    group = SimpleNamespace(get_backend=lambda: backend, get_world_size=lambda: 3)
    group.all_reduce = lambda tensor: calls.append(("all_reduce", tensor.nbytes))
    group.all_to_all_single = lambda into, tensor: calls.append(("all_to_all", tensor.nbytes, into.nbytes))
    monkeypatch.setattr(rank.backends, "dist", group)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: calls.append("synchronize"))
    rank.backends.connect_ranks(torch.device("cpu"))
    size = 3 * 2**20
    assert calls == ([("all_reduce", size), ("all_to_all", size, size), "synchronize"] if connects else [])


@pytest.fixture
def calls(monkeypatch):
    """Joins a group that only notes what is asked of it; a process begins with none."""
    made = []
    group = SimpleNamespace(all_gather=lambda own: [own, own], first_reason=None)
    session, backends = rank.session, rank.backends
    monkeypatch.setattr(session, "_sessions", {})
    monkeypatch.setattr(backends, "init_process_group", lambda *_: made.append("join") or torch.device("cpu"))
    monkeypatch.setattr(backends, "new_control_group", lambda timeout: None)
    monkeypatch.setattr(backends, "connect_ranks", lambda device: made.append("warm up"))
    monkeypatch.setattr(backends, "new_side_group", lambda name, *_: made.append(name) or name)
    monkeypatch.setattr(session, "ControlGroup", lambda handle, world_size: group)
    monkeypatch.setattr(session, "all_gather_devices", lambda *_: None)
    monkeypatch.setattr(session.gc, "freeze", lambda: None)  # of the tests' own process
    monkeypatch.setattr(session.gc, "collect", lambda: None)
    return made


def assignment(where="/proc/1/fd/3", **changes):
    given = {
        "config": configs.config(), "place": rank.RankPlace(0, 0, 2, 0), "world_size": 2, "threads": 1,
        "slowdown": (1.0, 1.0), "rendezvous": rank.Rendezvous(file=where), "offset": None, "folder": Path("outputs"),
        "hosts": ("n0", "n0"),
    }  # fmt: skip
    return rank.Assignment(**given | changes)


def test_rank_joins_once_for_all_points(calls):
    first = rank.session.open_session(assignment())
    assert rank.session.open_session(assignment()) is first
    assert calls == ["join", "warm up"]
    assert [first.side_group("ucc") for _ in range(2)] == ["ucc", "ucc"]
    assert calls.count("ucc") == 1
    assert rank.session.open_session(assignment("/proc/1/fd/4")) is not first


@pytest.mark.parametrize(("device", "by_mps"), [("cuda", True), ("cpu", False)])
def test_mps_server_counts_where_ranks_are_its_clients(calls, monkeypatch, device, by_mps):
    told = []
    monkeypatch.setattr(rank.session, "all_gather_devices", lambda *given: told.append(given[-1]))
    rank.session.open_session(assignment(config=configs.config(device=device), slowdown=(1.0, 2.0)))
    assert told == [by_mps]


def test_rank_use_counts_points_and_memory(calls):
    kept = rank.session.open_session(assignment())
    uses = [kept.begin_point() for _ in range(3)]
    assert [use.points_before for use in uses] == [0, 1, 2]
    assert all(len(use.host_bytes) == 2 and min(use.host_bytes) > 1e6 for use in uses)
    assert uses[0].device_bytes == [0, 0]


def test_compiled_code_is_forgotten_between_points(monkeypatch):
    resets = []
    monkeypatch.setattr(rank.session, "reset_compiler", lambda: resets.append("reset"))
    rank.session.forget_point()
    assert resets == ["reset"]


def test_float32_is_never_tf32_by_inheritance(monkeypatch):
    """As TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 or a library leaves it."""
    threads = torch.get_num_threads()
    torch.set_float32_matmul_precision("high")
    try:
        rank.set_up_torch(threads + 1, {})
        assert (torch.get_float32_matmul_precision(), torch.get_num_threads()) == ("highest", threads + 1)
        assert not torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(threads)


@pytest.mark.parametrize(("stated", "left"), [({}, None), ({"NVIDIA_TF32_OVERRIDE": "0"}, "0")])
def test_override_of_tf32_is_dropped_unless_stated(monkeypatch, stated, left):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", stated.get("NVIDIA_TF32_OVERRIDE", "1"))
    rank.set_up_torch(torch.get_num_threads(), stated)
    assert os.environ.get("NVIDIA_TF32_OVERRIDE") == left


def test_rank_sets_torch_up_before_it_joins(monkeypatch):
    calls = []

    def join(*_):
        raise InterruptedError

    monkeypatch.setattr(rank.main, "set_up_torch", lambda *given: calls.append(given))
    monkeypatch.setattr(rank.main, "open_session", join)
    with pytest.raises(InterruptedError):
        rank.main.run_rank(assignment())
    assert calls == [(1, {"A": "b"})]


def test_memory_of_scarcest_host_and_gpu_counts(monkeypatch):
    job = rank.job
    monkeypatch.setattr(job, "available_bytes", lambda device: 8e9)
    monkeypatch.setattr(job, "host_available_bytes", lambda: 50e9)
    monkeypatch.setattr(job, "PeakMemory", lambda device: None)
    hosts, config = ("n0", "n1") * 4, configs.config(device="cuda", ranks_per_device=2)
    given = assignment(config=config, place=rank.RankPlace(0, 0, 4, 0), world_size=8, slowdown=(1.0,) * 8, hosts=hosts)
    group = SimpleNamespace(all_gather=lambda own: [own, [6e9, 70e9, 2.0, 4.0]])
    session = SimpleNamespace(group=group, device=torch.device("cuda"), side_group=None, subgroup=None)
    found = job.describe_rank(given, session, SimpleNamespace(seconds_of=None))
    assert (found.sharers, found.available_bytes) == (2, 6e9)
    assert (found.host_sharers, found.host_available_bytes) == (4, 50e9)
    assert (found.hosts, found.folder, found.by_mps) == (hosts, given.folder, False)
    given = replace(given, slowdown=(1.0,) * 7 + (2.0,))
    assert job.describe_rank(given, session, SimpleNamespace(seconds_of=None)).by_mps


def test_rank_that_differs_from_plan_is_named(monkeypatch, golden):
    planned = ResourceLimits(cores=[0, 1, 2, 3], cpuset=[0, 1, 2, 3], cpu_quota=2.0)
    monkeypatch.setattr(rank.session.p2p, "all_gather_json", lambda own, handle: [own, [], own])
    given, group = SimpleNamespace(limits=planned, threads=torch.get_num_threads()), SimpleNamespace(handle=None)

    def lines(bound_to=(), **found):
        monkeypatch.setattr(rank.session, "resource_limits", lambda: replace(planned, **found))
        devices = rank.Devices([], bound_to=list(bound_to))
        session = rank.session.RankSession(torch.device("cpu"), group, devices, None, SECOND)
        return session.differences_from_plan(given)

    assert lines(cpuset=[]) == []
    assert lines([0, 1], cores=[0, 1]) == []  # of its GPU's NUMA node
    given.threads += 1
    different = lines(cores=[0], cpu_quota=None, memory_bytes=5)
    assert len(different) == 4
    golden("\n".join(different), {r"threads \d+, planned \d+": "threads N, planned M"})


NCCL_LOG = """[E] WorkNCCL raised the following async exception: NCCL error: remote error, NCCL version 2.30
ncclRemoteError: A call failed.
Last error:
socket closed by n1
Exception raised from checkForNCCLErrorsInternal"""


@pytest.mark.parametrize(
    ("log", "words"),
    [(NCCL_LOG, "NCCL error: remote error; socket closed by n1"), ("", "NCCL: asynchronous error")],
)
def test_asynchronous_error_ends_rank_with_words_of_nccl(monkeypatch, log, words):
    answers, told = iter(["SUCCESS", "SUCCESS", "COMM_ERROR"]), []
    nccl = SimpleNamespace(get_error=lambda: SimpleNamespace(name=next(answers)))
    world = {name: SimpleNamespace(name=name, _get_backend=lambda device: nccl) for name in ("gloo", "nccl")}
    monkeypatch.setattr(dist.distributed_c10d, "_world", SimpleNamespace(pg_map=[*world.values()]))
    monkeypatch.setattr(dist, "get_backend", lambda group: group.name)
    monkeypatch.setattr(rank.backends, "NCCL_POLL_S", 0)
    monkeypatch.setattr(rank.backends, "read_text", lambda path: log)
    monkeypatch.setattr(rank.backends, "report_and_exit", told.append)
    rank.backends.watch_nccl_errors(torch.device("cuda"))
    assert list(map(str, told)) == [words]
    assert not list(answers)
