"""Hosts and agents of a point as the record stores them."""

from dataclasses import dataclass, field

from benchkit.record.numbers import Amount, Count, Figure, RankNumber

VERSIONS = (
    "torch", "cuda", "hip", "nccl", "driver", "kernel", "python", "git_commit", "git_diff_hash",
)  # fmt: skip
"""Software that can differ between the hosts of one run."""


@dataclass(frozen=True, kw_only=True)
class HostReport:
    """What can differ between the hosts of one run; None where it is not known.

    Attributes:
        host: its name.
        cpu: name of its processor.
        available_cores: cores that the agent may use.
        gpus: what nvidia-smi lists of each GPU, by nvidia-smi's names, and its `numa_node`.
        torch: version of torch.
        cuda: version of CUDA that torch is built for.
        hip: version of HIP that torch is built for, on AMD GPUs.
        nccl: version of the NCCL, or RCCL, that torch loads.
        driver: version of the GPUs' driver.
        kernel: release of Linux.
        python: version of Python.
        git_commit: commit of the checkout that benchkit lies in.
        git_diff_hash: 12 hexadecimal digits of the hash of its uncommitted changes.
        load_average: over 1, 5 and 15 minutes.
        variables: of the agent's environment, those that libraries of GPUs, of communication and
            of threads read.
    """

    host: str
    cpu: str | None = None
    available_cores: Count | None = None
    gpus: list[dict[str, str]] = field(default_factory=list)
    torch: str | None = None
    cuda: str | None = None
    hip: str | None = None
    nccl: str | None = None
    driver: str | None = None
    kernel: str | None = None
    python: str | None = None
    git_commit: str | None = None
    git_diff_hash: str | None = None
    load_average: list[Figure] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AgentReport(HostReport):
    """One agent of a point.

    Attributes:
        ranks: numbers of the ranks that it ran.
    """

    ranks: list[RankNumber] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Environment(HostReport):
    """The host of agent 0 at the start of a point.

    Attributes:
        benchkit: version of benchkit.
        platform: as Python's `platform.platform()` names it.
        cores: processors of the host.
        cpu_quota: cores' worth of time that the control group allows; None without a quota.
        governor: frequency governor of core 0.
        git_dirty: whether the checkout has uncommitted changes.
        command: the command line, with the program's name alone.
        available_bytes: free memory.
        topology: how its GPUs and network cards are connected, as `nvidia-smi topo -m` prints it.
    """

    benchkit: str | None = None
    platform: str | None = None
    cores: int | None = None
    cpu_quota: Amount | None = None
    governor: str | None = None
    git_dirty: bool | None = None
    command: list[str] = field(default_factory=list)
    available_bytes: Amount | None = None
    topology: str | None = None
