"""Configurations and agents as a point meets them, without a command line or a launcher."""

from benchkit.api.keys import BackendConfig, HardwareConfig, RunConfig
from benchkit.api.registry import load_suites
from benchkit.point.agent_group import AgentFacts, AgentGroup
from benchkit.rank.assignment import Assignment, Rendezvous
from benchkit.record.record import AgentReport
from launch.agents.clock import Offset
from launch.agents.group import Agents
from launch.agents.messages import AgentInfo
from launch.host import ResourceLimits

from tests.support import fakes


def own_suites():
    """Names of benchkit's suites, without those that tests register beside them."""
    return [name for name, suite in load_suites().items() if suite.build.__module__.startswith("benchkit.suites.")]


def config(backend="gloo", device="cpu", ranks_per_device=1, slowdown=1, **changes):
    devices = {"nccl": ["cuda"]}.get(backend, ["cpu", "cuda"])
    settings = {
        "suite": "collective", "seed": 0, "world_size": "auto", "threads_per_rank": "auto",
        "start_method": "forkserver",
        "timeout_s": 10.0, "join_timeout_s": 5.0, "host_wait_s": 3600.0, "max_failures": None, "on_end": None,
        "trust_network": False, "private_network": True, "ranks": "auto", "repeat": 1, "report": None,
        "measure": fakes.plan(), "model": None, "backend": BackendConfig(backend, devices, {"A": "b"}),
        "hardware": HardwareConfig(device, ranks_per_device, slowdown, {}, "auto", "auto"), "profile": False,
        "explain": False,
    }  # fmt: skip
    return RunConfig(**(settings | changes))


def agent_group(*hosts, me=0, gpus=None, cores=None, available=None, cpuset=()):
    """Agents on these hosts; per agent the GPUs and cores that it sees; on each host this set of cores."""
    cores = cores or [[0, 1, 2, 3]] * len(hosts)
    gpus = gpus or [[]] * len(hosts)
    members = [AgentInfo(index, host, host, host, cores[index]) for index, host in enumerate(hosts)]
    facts = {}
    for index, host in enumerate(hosts):
        report = AgentReport(host=host, cpu="cpu", available_cores=available or len(cores[index]))
        facts[index] = AgentFacts(report, gpus[index], limits=ResourceLimits(cores[index], list(cpuset)))
    return AgentGroup(Agents(members[me], members, {}, "127.0.0.1"), facts, uses_file_store=True)


def assignments(wanted, plan, folder=None):
    """The parts of this agent's ranks in a point."""
    return [
        Assignment(wanted, place, plan.world_size, plan.threads, plan.slowdown, Rendezvous(), Offset(), folder)
        for place in plan.places
    ]


def made(schema, **values):
    """A configuration of a suite with some keys only, unchecked."""
    config = object.__new__(schema)
    vars(config).update(values)
    return config
