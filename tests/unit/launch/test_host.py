import os
import socket

import pytest
from launch import host

from tests.support.kernel import files_of_kernel


def test_node_name_prefers_slurm(monkeypatch):
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    assert host.node_name() == socket.gethostname()
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    assert host.node_name() == "n7"


def test_namespaces_have_distinct_ids(monkeypatch):
    own = host.namespace("net")
    assert own == host.namespace("net") != host.namespace("time")

    def missing(path):
        raise FileNotFoundError

    monkeypatch.setattr(os, "stat", missing)
    assert host.namespace("net") == f"{own.rpartition('-')[0]}-0"  # of the host


def test_usable_cores_without_affinity_are_all(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity")
    assert host.affinity_cores() == list(range(os.cpu_count()))


V2 = "41 31 0:38 / /cg rw,relatime - cgroup2 cgroup2 rw"
CPU, MEMORY = (
    "32 31 0:29 / /cg/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct",
    "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory",
)
HYBRID = "\n".join([CPU, MEMORY, "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw"])
QUOTA_1, PERIOD_1, LIMIT_1 = "cpu.cfs_quota_us", "cpu.cfs_period_us", "memory.limit_in_bytes"
UNLIMITED = "9223372036854771712"


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "files", "expected"),
    [
        pytest.param(
            "0::/job/task", V2,
            {"cg/job/cpu.max": "150000 100000", "cg/job/task/cpu.max": "max 100000",
             "cg/job/memory.max": "max", "cg/job/task/memory.max": "5000"},
            (1.5, 5000), id="v2",
        ),
        pytest.param(
            "0::/a/b", V2,
            {"cg/a/cpu.max": "100000 100000", "cg/a/b/cpu.max": "300000 100000", "cg/a/b/memory.max": "9",
             "cg/a/memory.max": "7"},
            (1.0, 7), id="outer",
        ),
        pytest.param("0::/", V2, {"cg/cpu.max": "50000 100000", "cg/memory.max": "8"}, (0.5, 8), id="namespace"),
        pytest.param("0::/", V2, {"cg/cgroup.procs": ""}, (None, None), id="root"),
        pytest.param(
            "4:memory:/m\n1:cpuacct,cpu:/job/task", f"{CPU}\n{MEMORY}",
            {f"cg/cpu,cpuacct/job/{QUOTA_1}": "250000", f"cg/cpu,cpuacct/job/{PERIOD_1}": "100000",
             f"cg/cpu,cpuacct/job/task/{QUOTA_1}": "-1", f"cg/cpu,cpuacct/job/task/{PERIOD_1}": "100000",
             f"cg/memory/{LIMIT_1}": UNLIMITED, f"cg/memory/m/{LIMIT_1}": "4096"},
            (2.5, 4096), id="v1",
        ),
        pytest.param(
            "4:memory:/m\n1:cpu:/", f"{CPU}\n{MEMORY}",
            {f"cg/cpu,cpuacct/{QUOTA_1}": "-1", f"cg/cpu,cpuacct/{PERIOD_1}": "100000",
             f"cg/memory/m/{LIMIT_1}": UNLIMITED},
            (None, None), id="unlimited",
        ),
        pytest.param(
            "4:memory:/m\n1:cpu:/c\n0::/u", HYBRID,
            {f"cg/cpu,cpuacct/c/{QUOTA_1}": "50000", f"cg/cpu,cpuacct/c/{PERIOD_1}": "50000",
             f"cg/memory/m/{LIMIT_1}": "6", "cg/unified/u/cgroup.procs": "", "cg/unified/cpu.stat": "usage_usec 1"},
            (1.0, 6), id="hybrid",
        ),
        pytest.param(
            "0::/docker/1f", "41 31 0:38 /docker/1f /cg ro - cgroup2 cgroup2 rw",
            {"cg/cpu.max": "200000 100000", "cg/memory.max": "3"}, (2.0, 3), id="container",
        ),
        pytest.param(
            "0::/../other", V2, {"cg/cpu.max": "1000 100000", "cg/other/cpu.max": "1 2"}, (None, None), id="outside",
        ),
        pytest.param(
            "0::/../b", "41 31 0:38 /.. /cg rw - cgroup2 cgroup2 rw",
            {"cg/b/cpu.max": "300000 100000", "cg/a/cpu.max": "1000 100000"}, (3.0, None), id="beside",
        ),
        pytest.param(
            "0::/in", "41 31 0:38 /../.. /cg rw - cgroup2 cgroup2 rw",
            {"cg/a/b/in/cpu.max": "100000 100000", "cg/a/b/in/cgroup.procs": f"1\n{os.getpid()}",
             "cg/a/c/in/cpu.max": "1000 100000", "cg/a/memory.max": "2"},
            (1.0, 2), id="above",
        ),
        pytest.param(
            "0::/x y", "1 1 8:1 / /data\udcff rw - ext4 /dev/a rw\n41 31 0:38 / /c\\040g rw - cgroup2 cgroup2 rw",
            {"c g/x y/cpu.max": "100000 100000"}, (1.0, None), id="spaces",
        ),
        pytest.param(
            "0::/a/benchkit-77", V2, {"cg/a/benchkit-77/cpu.max": "10000 100000", "cg/a/cpu.max": "400000 100000"},
            (4.0, None), id="slowdown",
        ),
        pytest.param(
            "0::/benchkit-77.scope", V2, {"cg/benchkit-77.scope/cpu.max": "10000 100000"}, (0.1, None), id="other-unit",
        ),
    ],
)  # fmt: skip
def test_tightest_limit_of_nested_groups_counts(tmp_path, cgroup, mountinfo, files, expected):
    files_of_kernel(tmp_path, cgroup, mountinfo, **files)
    assert (host.cpu_quota(tmp_path), host.memory_limit(tmp_path)) == expected


def test_largest_view_of_groups_is_taken(tmp_path):
    files_of_kernel(tmp_path, "0::/a/b", f"1 1 0:38 /a/b /own rw - cgroup2 c rw\n{V2}", **{"cg/a/b/f": "", "own/f": ""})
    assert host.cgroups_by_version("cpu", tmp_path) == {2: [tmp_path / "cg/a/b", tmp_path / "cg/a", tmp_path / "cg"]}


def test_quota_cuts_available_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(host.os, "sched_getaffinity", lambda pid: set(range(16)))
    for quota, cores in (("350000", 3), ("max", 16), ("50000", 1)):
        files_of_kernel(tmp_path, "0::/", V2, **{"cg/cpu.max": f"{quota} 100000"})
        assert host.available_cores(tmp_path) == cores


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "path"),
    [
        ("0::/a/b", V2, "cg/a/cpuset.cpus.effective"),
        ("3:cpuset:/a", "3 1 0:3 / /cs rw - cgroup c rw,cpuset", "cs/a/cpuset.effective_cpus"),
    ],
)
def test_cpuset_is_that_of_own_group(tmp_path, cgroup, mountinfo, path):
    files_of_kernel(tmp_path, cgroup, mountinfo, **{path: "0-2,8", "cg/cpuset.cpus.effective": "0-63"})
    assert host.cpuset(tmp_path) == [0, 1, 2, 8]
    assert len(host.cpuset(tmp_path / "nothing")) == os.cpu_count()


def test_lists_of_cores_are_those_of_kernel():
    for text in ("", "3", "0-1", "0-3,8,10-11"):
        assert host.format_core_list(sorted(host.parse_core_list(text))) == text


def test_variables_that_pin_are_hidden_for_a_while(monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "true")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("GOMP_CPU_AFFINITY", raising=False)
    with host.hide_pinning():
        assert not set(host.PINNING) & set(os.environ)
        assert os.environ["OMP_NUM_THREADS"] == "3"
    assert os.environ["OMP_PROC_BIND"] == "true"
    assert "GOMP_CPU_AFFINITY" not in os.environ
