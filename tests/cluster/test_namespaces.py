"""Agents on hosts of their own: namespaces with another clock, and with a cable that can be cut."""

import subprocess
import sys

import pytest

from tests.support.cli import ROOT, begun, ends, wait_until
from tests.support.hosts import started_on

POINT = ("+suite=faulty", "measure.max_iterations=10", "timeout_s=120")


def test_agents_align_shifted_clocks(cli):
    """Agent 1 lives where the monotonic clock is 1000 s ahead."""
    shifted = ["unshare", "--time", "--monotonic", "1000"]
    if subprocess.run([*shifted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespaces here: they need Linux 5.6 and root")
    variables = {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": cli.mark}
    processes = [
        cli.start(*POINT, under=shifted * index, **variables, OMPI_COMM_WORLD_RANK=str(index)) for index in range(2)
    ]
    ends(processes)
    [record] = cli.records()
    assert record["status"] == "ok"
    assert record["start_clock"]["estimator"] == "min_rtt_line"
    assert 0 < record["start_clock"]["uncertainty_s"] < 0.1
    for offsets in record["cases"][0]["start_offsets_s"]:
        assert max(offsets) < 1.0  # not 1000


def test_lost_network_ends_sweep(cli, two_hosts):
    """The cable is cut, so that no kernel says goodbye."""
    names = two_hosts
    variables = {"OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": "10.99.7.1", "MASTER_PORT": "29871"}
    variables["BENCHKIT_SECRET"] = cli.mark
    processes = [
        cli.start(
            *POINT[:2], "timeout_s=600", "fault=none,hang,none", under=["ip", "netns", "exec", name], **variables,
            OMPI_COMM_WORLD_RANK=str(index), SLURMD_NODENAME=f"n{index}",
        )
        for index, name in enumerate(names)
    ]  # fmt: skip
    assert wait_until(lambda: begun(cli, 1) and begun(cli, 1, 1))
    subprocess.run(["ip", "-n", names[0], "link", "set", f"v{names[0]}", "down"], check=True)
    results = ends(processes)
    assert [code for code, _, _ in results] == [1, 1]
    assert [f"agent {1 - index} on" in err for index, (_, _, err) in enumerate(results)] == [True, True]
    assert [record["status"] for record in cli.records()] == ["ok", "crash"]
    assert cli.records()[1]["error"]["host"] == "n1"
    assert wait_until(lambda: not cli.processes())


@pytest.mark.parametrize("hosts", ["two_hosts", "two_ipv6_hosts"])
def test_agents_without_names_and_routes_find_each_other(cli, request, hosts):
    ends(started_on(cli, request.getfixturevalue(hosts), *POINT))
    assert [record["status"] for record in cli.records()] == ["ok"]
    assert [agent["host"] for agent in cli.records()[0]["agents"]] == ["n0", "n1"]


def test_all_addresses_of_an_interface_are_published(two_hosts):
    name = two_hosts[0]
    subprocess.run(
        ["ip", "-n", name, "addr", "add", "10.99.8.1/24", "dev", f"v{name}", "label", f"v{name}:x"], check=True
    )
    program = "from launch.agents import interfaces\nprint(*interfaces.reachable_addresses())\n"
    program += "print(*map(interfaces.addresses().get, map(interfaces.parse, interfaces.reachable_addresses())))"
    command = ["ip", "netns", "exec", name, sys.executable, "-c", program]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()
    assert printed == ["10.99.7.1", "10.99.8.1", f"v{name}", f"v{name}"]


@pytest.mark.parametrize(("hosts", "address"), [("two_hosts", "10.99.7.1"), ("two_ipv6_hosts", "[fd00:99:7::1]")])
def test_agent_says_where_it_looked(cli, request, hosts, address):
    names = request.getfixturevalue(hosts)
    subprocess.run(["ip", "-n", names[1], "link", "set", f"v{names[1]}", "down"], check=True)
    _, (code, _, err) = ends(started_on(cli, names, *POINT, "join_timeout_s=8"))
    assert code == 2
    assert all(word in err for word in ("n0:", f"{address}:", "MASTER_ADDR"))
