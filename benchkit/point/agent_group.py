"""The group of agents: gathered facts, clock offset, rendezvous of the ranks, host locks."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from benchkit import environment
from benchkit.environment import visible_gpus
from benchkit.errors import HostBusy
from benchkit.rank.assignment import MemoryFile, Rendezvous, memory_file, tcp_store
from benchkit.record.naming import format_duration
from benchkit.record.record import AgentReport, StartClock
from benchkit.secrets import mask_secrets
from launch.agents import interfaces
from launch.agents.clock import ESTIMATOR, SHARED, Offset, OffsetTracker
from launch.agents.group import EXCHANGE_TIMEOUT_S, Agents
from launch.agents.host_lock import LOCK_VARIABLE, Holder, HostLock, HostTaken, NoLock
from launch.agents.messages import AgentInfo, Lost, SweepEnds
from launch.host import ResourceLimits, resource_limits
from launch.ranks import private_network
from launch.ranks.private_network import PrivateNetwork

log = logging.getLogger("benchkit")
T = TypeVar("T")


@dataclass(frozen=True)
class AgentFacts:
    """Facts that an agent reports to the others.

    Attributes:
        visible_gpus: GPUs in CUDA's order, by UUID if known.
        lack_of_gpus: why there are none; None otherwise.
        limits: resource limits of the agent's process, and so of its ranks.
    """

    report: AgentReport
    visible_gpus: list[str]
    lack_of_gpus: str | None = None
    limits: ResourceLimits = field(default_factory=ResourceLimits)


@dataclass
class AgentGroup:
    """The agents of this run and their facts, by index.

    Attributes:
        uses_file_store: whether all agents can open files of agent 0, as on one host.
        interface: interface by which gloo reaches other hosts; "" if the host's name leads there.
        network: private network of the ranks on one host; None if the kernel does not provide it.
        clock: estimates of the offset to agent 0's clock.
        _given_up: uids of other users who held a host beyond the limit once. The group does not
            wait for them again.
    """

    agents: Agents
    facts: dict[int, AgentFacts]
    uses_file_store: bool = False
    interface: str = ""
    network: PrivateNetwork | None = None
    clock: OffsetTracker = field(default_factory=OffsetTracker)
    _given_up: set[int | None] = field(default_factory=set)

    def clock_offset(self) -> Offset:
        """Return the offset from this clock to agent 0's; all agents call this together."""
        self.clock.add_estimate(self.agents)
        return self.clock.offset()

    def start_clock(self, offset: Offset) -> StartClock:
        """Return the accuracy of starts by an earlier offset; all agents call this together."""
        self.clock.add_estimate(self.agents)
        errors_s = self.agents.all_gather(self.clock.error_s(offset), list[float])
        is_shared = len({member.clock for member in self.agents.members}) == 1
        return StartClock(SHARED if is_shared else ESTIMATOR, max(errors_s))

    @contextlib.contextmanager
    def rendezvous(self) -> Iterator[Rendezvous]:
        """Yield the rendezvous of new ranks; all agents call this together.

        Each set of ranks has its own: NCCL leaves a key in the store that ends all ranks which read
        it.
        """
        if not self.uses_file_store:
            store = tcp_store() if self.agents.first else None
            port = self.agents.broadcast(store.port if store else None, int)
            yield Rendezvous(host=self.agents.hub, port=port, interface=self.interface)
            return
        with memory_file() if self.agents.first else contextlib.nullcontext() as file:
            yield Rendezvous(file=self.agents.broadcast(file, MemoryFile).path)

    def members_on_host(self, member: AgentInfo) -> list[AgentInfo]:
        return [peer for peer in self.agents.members if peer.network == member.network]

    @contextlib.contextmanager
    def lock_hosts(self, limit_s: float) -> Iterator[list[str]]:
        """Hold the lock of every host and yield warnings for the record.

        Locks are acquired in host order, which prevents deadlock between runs. HostBusy is raised
        on all agents if a process of the same user holds a host longer than `limit_s`. A host held
        by another user is measured with a warning.
        """
        lock = HostLock()
        try:
            yield self.acquire_hosts(lock, limit_s)
        finally:
            lock.release()

    def acquire_hosts(self, lock: HostLock, limit_s: float) -> list[str]:
        """Acquire the locks of all hosts; return the warnings."""
        me = self.agents.me
        refusals: list[tuple[str, bool]] = []
        for network in sorted({member.network for member in self.agents.members}):
            refusal = None
            if me.network == network and self.members_on_host(me)[0] == me:
                refusal = self.acquire(lock, limit_s)
            refusals_here = self.agents.all_gather(
                refusal, list[tuple[str, bool] | None], limit_s + EXCHANGE_TIMEOUT_S
            )
            refusals += filter(None, refusals_here)
        for text, is_ours in refusals:
            if is_ours:
                raise HostBusy(f"{text}; host_wait_s={limit_s:g}")
        return [text for text, _ in refusals]

    def acquire(self, lock: HostLock, limit_s: float) -> tuple[str, bool] | None:
        """Acquire this host's lock; else return the reason, and whether our user holds the lock."""
        me = self.agents.me

        def warn(holder: Holder) -> None:
            log.warning(
                "%s: waiting for %s to measure, at most %s (host_wait_s); Ctrl-C stops; "
                "%s=NAME measures beside it",
                me.host,
                mask_secrets(str(holder)),
                format_duration(limit(holder)),
                LOCK_VARIABLE,
            )

        def limit(holder: Holder) -> float:
            return 0.0 if holder.uid in self._given_up else limit_s

        try:
            lock.acquire(warn, self.agents, limit)
        except HostTaken as error:
            reason = mask_secrets(str(error))
            if error.holder.is_ours:
                return f"{me.host} is {reason}", True
            self._given_up.add(error.holder.uid)
            return f"measured beside another run: {me.host} is {reason}", False
        except NoLock as error:
            return f"{me.host} is not kept from other runs: {error}", False
        return None


NO_NETWORK = PrivateNetwork(0, (), ())


def form_group(agents: Agents) -> AgentGroup:
    """Gather facts and choose the kind of rendezvous for ranks; all agents call this together.

    Agent 0 makes a trial file and a private network; the others report whether they can open them.
    """
    facts = all_gather_facts(agents)
    with memory_file() as trial:
        offered = (
            (trial, private_network.create_private_network() or NO_NETWORK)
            if agents.first
            else None
        )
        file, network = retry_after_losses(
            lambda: agents.broadcast(offered, tuple[MemoryFile, PrivateNetwork])
        )
        one_host = len({member.network for member in agents.members}) == 1
        reachable = (one_host and file.can_be_opened(), network.can_be_entered())
        reachable_by_agent = retry_after_losses(
            lambda: agents.all_gather(reachable, list[tuple[bool, bool]])
        )
    if all(can_open for can_open, _ in reachable_by_agent):
        is_enterable = bool(network.paths) and all(can_enter for _, can_enter in reachable_by_agent)
        return AgentGroup(
            agents, facts, uses_file_store=True, network=network if is_enterable else None
        )
    return AgentGroup(agents, facts, interface=gloo_interface(agents))


def gloo_interface(agents: Agents) -> str:
    """Return this host's interface for gloo; "" if the host's name leads there.

    Agents reach agent 0 on their own host by loopback; one with a connection to another host
    determines the interface for all agents of its host.
    """
    name_is_reachable = interfaces.is_name_reachable()
    own_interface = "" if name_is_reachable else interfaces.outer_interface(agents.connections)
    interfaces_by_agent = retry_after_losses(lambda: agents.all_gather(own_interface, list[str]))
    pairs = zip(agents.members, interfaces_by_agent, strict=True)
    names_on_host = [name for member, name in pairs if member.network == agents.me.network]
    return next(filter(None, names_on_host), "")


def all_gather_facts(agents: Agents) -> dict[int, AgentFacts]:
    """Return each agent's facts, by its index; all agents call this together."""
    gpus = visible_gpus()
    own_facts = AgentFacts(
        environment.agent_report(), gpus.names, gpus.missing_reason, resource_limits()
    )
    facts = retry_after_losses(lambda: agents.all_gather(own_facts, list[AgentFacts]))
    indices = [member.index for member in agents.members]
    return dict(zip(indices, facts, strict=True))


def retry_after_losses(gather: Callable[[], T]) -> T:
    """Return the result of a collective before the first point; lost agents are left out."""
    while True:
        try:
            return gather()
        except Lost as lost:
            if lost.host_is_silent:
                raise SweepEnds(str(lost)) from None
            log.warning("%s; the others go on", lost)
