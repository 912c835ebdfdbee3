"""The manifests of launch/, applied by a stand-in for their controllers.

It does what JobSet's, Kubeflow Trainer's and SkyPilot's do: it starts the pods of the manifest with the same variables
under the same names, each in namespaces of its own, and if one is lost it stops the others and starts all again.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import ROOT, Cli, ends, wait_until

GRACE_S = 30
"""Of a pod between SIGTERM and SIGKILL, as in Kubernetes."""
SIZES = "0.1,1,2,4"
ADDRESSES = ("10.99.7.1", "10.99.7.2")


@dataclass
class Pod:
    """A container as its manifest describes it; `names` are those by which others find it."""

    host: str
    names: Sequence[str]
    command: Sequence[str]
    environment: dict[str, str]
    is_renewed: bool = False
    process: "subprocess.Popen[str] | None" = field(default=None, repr=False)

    def start(self, cli: Cli, namespace: str) -> None:
        """Its volume is at another path, `benchkit` is this checkout's, and its sweep is smaller."""
        isolated = ["ip", "netns", "exec", namespace, "unshare", "--uts", "--pid", "--fork", "--kill-child"]
        changed = {"/results/allreduce": "outputs/allreduce", "data_size=1,10,100,1000": f"data_size={SIZES}"}
        words = [*(changed.get(word, word) for word in self.command), "measure=quick"]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.process = subprocess.Popen(
            [*isolated, "sh", "-c", 'hostname "$1"; shift; exec "$@"', "sh", self.host, *words],
            cwd=cli.folder, env=cli.environment | self.environment | {"PATH": path},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def terminate(self) -> None:
        """SIGTERM goes to the container's first process, which is the only child of unshare."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in children.read_text().split():
            os.kill(int(pid), signal.SIGTERM)

    def lose(self) -> None:
        """As by a node that goes away: all of its processes are gone at once."""
        self.process.kill()


@dataclass
class Controller:
    cli: Cli
    namespaces: list[str]
    pods: list[Pod]

    def start(self) -> None:
        for namespace in self.namespaces:
            folder = Path("/etc/netns") / namespace
            folder.mkdir(parents=True, exist_ok=True)
            lines = [f"{address} {' '.join(pod.names)}" for address, pod in zip(ADDRESSES, self.pods, strict=True)]
            (folder / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n")
        for pod, namespace in zip(self.pods, self.namespaces, strict=True):
            pod.start(self.cli, namespace)

    def stop_others(self) -> None:
        assert wait_until(lambda: any(pod.process.poll() is not None for pod in self.pods))
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.terminate()
        for pod in self.pods:
            pod.process.communicate(timeout=GRACE_S)
            if pod.is_renewed:
                pod.host += "-new"

    def close(self) -> None:
        for namespace in self.namespaces:
            folder = Path("/etc/netns") / namespace
            (folder / "hosts").unlink(missing_ok=True)
            if folder.exists():
                folder.rmdir()


def document(name: str, kind: str = "") -> dict[str, Any]:
    found = yaml.safe_load_all((ROOT / "launch" / name).read_text())
    return next(each for each in found if each.get("kind", "") == kind)


def given(container: dict[str, Any], secret: str) -> dict[str, str]:
    """The variables that a manifest sets; the Secret holds `secret`."""
    return {each["name"]: each.get("value", secret) for each in container.get("env", [])}


def in_pods(name: str, job: dict[str, Any], count: int, started: dict[str, Any], secret: str) -> list[Pod]:
    """JobSet names pods JOBSET-JOB-REPLICA-INDEX, below the headless service of its own name; Kubernetes numbers them.

    `started` holds command and arguments.
    """
    [container] = job["template"]["spec"]["template"]["spec"]["containers"]
    hosts = [f"{name}-{job['name']}-0-{index}" for index in range(count)]
    return [
        Pod(
            host, [f"{host}.{name}", host], started["command"] + started["args"],
            given(container, secret) | {"JOB_COMPLETION_INDEX": str(index)},
        )
        for index, host in enumerate(hosts)
    ]  # fmt: skip


def jobset(secret: str) -> list[Pod]:
    found = document("kubernetes/jobset.yaml", "JobSet")
    [job] = found["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    [container] = spec["template"]["spec"]["containers"]
    return in_pods(found["metadata"]["name"], job, spec["completions"], container, secret)


def trainjob(secret: str) -> list[Pod]:
    """Trainer makes a JobSet of the runtime, and its torch plugin sets PET_*."""
    runtime = document("kubernetes/trainjob.yaml", "TrainingRuntime")
    found = document("kubernetes/trainjob.yaml", "TrainJob")
    name, trainer = found["metadata"]["name"], found["spec"]["trainer"]
    [job] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    pods = in_pods(name, job, trainer["numNodes"], trainer, secret)
    for pod in pods:
        pod.environment |= {
            "PET_NNODES": str(len(pods)), "PET_NODE_RANK": pod.environment["JOB_COMPLETION_INDEX"],
            "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]), "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
            "PET_MASTER_PORT": "29400",
        }  # fmt: skip
    return pods


def skypilot(secret: str) -> list[Pod]:
    """Machines instead of pods: nobody knows the others' names, and after a loss there are new ones."""
    found = document("skypilot.yaml")
    shared = {
        "SKYPILOT_TASK_ID": f"sky-managed-2026-11-28-01-00-00-000000_{secret}_1-0",
        "SKYPILOT_NUM_NODES": str(found["num_nodes"]), "SKYPILOT_NODE_IPS": "\n".join(ADDRESSES),
        "SKYPILOT_NUM_GPUS_PER_NODE": "0", **dict.fromkeys(found["secrets"], secret),
    }  # fmt: skip
    return [
        Pod(
            f"machine-{index}", [f"unknown-{index}"], found["run"].split(),
            shared | {"SKYPILOT_NODE_RANK": str(index)}, is_renewed=True,
        )
        for index in range(found["num_nodes"])
    ]  # fmt: skip


STARTED = {"jobset": jobset, "trainjob": trainjob, "skypilot": skypilot}
LAUNCHERS = {"jobset": "indexed_job", "trainjob": "torchrun", "skypilot": "skypilot"}


@pytest.fixture
def controller(cli, two_hosts, request) -> Iterator[Controller]:
    found = Controller(cli, two_hosts, STARTED[request.param](cli.mark))
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize(
    ("controller", "lost"), [("jobset", 0), ("jobset", 1), ("trainjob", 1), ("skypilot", 1)], indirect=["controller"]
)
def test_sweep_goes_on_where_a_pod_was_lost(cli, controller, lost, request):
    controller.start()
    begun_on = [pod.host for pod in controller.pods]
    first = cli.folder / "outputs" / "allreduce" / "0" / "record.json"
    assert wait_until(lambda: first.exists() and json.loads(first.read_text())["status"] == "ok")
    measured = first.read_bytes()
    controller.pods[lost].lose()
    controller.stop_others()
    controller.start()
    told = ends([pod.process for pod in controller.pods])
    assert [code for code, _, _ in told] == [0, 0], told
    found = cli.records()
    assert first.read_bytes() == measured
    assert [record["config"]["data_size"] for record in found] == [float(size) for size in SIZES.split(",")]
    assert {record["status"] for record in found} == {"ok"}
    assert {record["launched_by"] for record in found} == {LAUNCHERS[request.node.callspec.params["controller"]]}
    assert {record["world_size"] for record in found} == {2}
    hosts = [[agent["host"] for agent in record["agents"]] for record in found]
    assert hosts[0] == begun_on
    assert hosts[-1] == [pod.host for pod in controller.pods]
    assert (found[-1]["resumed_with"] != {}) == (begun_on != hosts[-1])
    assert wait_until(lambda: not cli.processes())
