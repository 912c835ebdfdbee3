"""Every pair of ranks, each way and both ways at once: what the record holds, what is checked, and what is refused."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from benchkit.api import p2p
from benchkit.api.verification import POISON
from benchkit.errors import InvalidResult
from benchkit.suites.pair_matrix import cases
from benchkit.suites.pair_matrix.cases import (
    Answer,
    Exchange,
    MessageCheck,
    Send,
    allocate,
    cases_of,
    groups_at,
    num_affordable,
)
from benchkit.suites.pair_matrix.schedule import Schedule
from benchkit.suites.pair_matrix.suite import ALL, HALVES, IDLE, NODES, PAIRS, PairMatrixConfig

from tests.support import fakes
from tests.support.cli import Cli
from tests.support.configs import made


@pytest.fixture(scope="module")
def of_three(module_cli: Cli):
    given = "world_size=3", "sizes=[8B,1000B]", "both_at_once=true", "measure=few"
    done = module_cli("+suite=pair_matrix", *given)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = module_cli.records()
    return record


def test_record_has_each_pair_and_direction_once_per_size(of_three):
    sent = [
        (sender, receiver, case["payload_bytes"], case["labels"]["direction"] == "both")
        for case in of_three["cases"] if "round" in case["labels"]
        for sender, receiver in enumerate(case["details"]["sends_to"]) if receiver != IDLE
    ]  # fmt: skip
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    assert sorted(sent) == sorted((*pair, size, both) for pair in pairs for size in (8, 1000) for both in (False, True))


def test_senders_of_record_have_samples_of_their_own_pair(of_three):
    for case in of_three["cases"]:
        if "round" in case["labels"]:
            senders = np.flatnonzero(np.array(case["details"]["sends_to"]) != IDLE)
            assert (np.array(case["samples_s"])[senders] > 1e-6).all()


def test_record_has_groups_that_differ(of_three):
    """Of three ranks on one node: a pair is everyone, halves are one and two ranks."""
    found = [(case["labels"]["group"], case["details"]["group_of"]) for case in of_three["cases"][-2:]]
    assert found == [("pairs", [0, 0, 0]), ("halves", [0, 1, 1])]


def test_groups_keep_nodes_together():
    hosts = ["a", "b", "a", "b", "c"]
    assert groups_at(PAIRS, hosts) == [[0, 2], [1, 3, 4]]
    assert groups_at(NODES, hosts) == [[0, 2], [1, 3], [4]]
    assert groups_at(HALVES, hosts) == [[0, 2], [1, 3, 4]]
    assert groups_at(ALL, hosts) == [[0, 2, 1, 3, 4]]


class Wire:
    """Delivers what two ranks in one process send each other; `damage` changes a message under way."""

    def __init__(self, damage=lambda message: message):
        self.damage, self.under_way = damage, []

    def start(self, sends, receives):
        self.under_way += [self.damage(tensor.clone()) for tensor, _ in sends]
        for tensor, _ in receives:
            if self.under_way and len(self.under_way[0]) == len(tensor):
                tensor.copy_(self.under_way.pop(0))
        return p2p.PendingTransfers()


def passed_message(monkeypatch, damage):
    """Sends a message of 3000 B from rank 0 to rank 1 and checks it there."""
    wire = Wire(damage)
    monkeypatch.setattr(cases.p2p, "start_transfers", wire.start)
    sent, received = (allocate(3000, torch.device("cpu")) for _ in range(2))
    with pytest.raises(InvalidResult, match="rank 1"):
        check(Send(sent, 1), 0)  # its answer is not there yet
    check(Answer(received, 0), 1)


def check(step, rank):
    fakes.verify(SimpleNamespace(step=step, verify=MessageCheck(step, rank, 2, seed=3)))


@pytest.mark.parametrize(("arriving", "is_right"), [(1, True), (0, False)])
def test_exchanged_message_is_the_peers(monkeypatch, arriving, is_right):
    """A rank that gets its own message back has exchanged nothing."""
    held = allocate(3000, torch.device("cpu"))
    step = Exchange(held, 1)

    def start(sends, receives):
        [(target, _)] = receives
        target.copy_(MessageCheck(step, 0, 2, seed=3).values(target, 0, arriving))
        return p2p.PendingTransfers()

    monkeypatch.setattr(cases.p2p, "start_transfers", start)
    with nullcontext() if is_right else pytest.raises(InvalidResult):
        check(step, 0)


def swapped(message):
    message[[5, 700]] = message[[700, 5]]
    return message


def test_right_message_passes(monkeypatch):
    passed_message(monkeypatch, lambda message: message)


@pytest.mark.parametrize("damage", [torch.zeros_like, lambda message: message.roll(1), lambda m: m + (m == m[-1])])
def test_wrong_message_is_invalid(monkeypatch, damage):
    with pytest.raises(InvalidResult, match="rank 0"):
        passed_message(monkeypatch, damage)


def test_lost_message_is_invalid(monkeypatch):
    """What an earlier message left behind must not pass for a new one."""
    held = allocate(3000, torch.device("cpu"))
    answer = Answer(held, 0)
    held.received.copy_(MessageCheck(answer, 1, 2, seed=3).values(held.received, 0, 0))
    monkeypatch.setattr(cases.p2p, "start_transfers", lambda sends, receives: p2p.PendingTransfers())
    with pytest.raises(InvalidResult, match=str(POISON)):
        check(answer, 1)


def test_lack_of_memory_is_skipped():
    rank = SimpleNamespace(world_size=2, memory_shortage=lambda needed: f"needs {needed:.0f}")
    [case] = cases_of(made(PairMatrixConfig, sizes=[1.0, 2.0]), rank)
    assert case.skip == f"needs {8 * 2**20}"


def test_single_rank_has_no_pair():
    [case] = cases_of(made(PairMatrixConfig, world_size=1), SimpleNamespace(world_size=1))
    assert case.unavailable


@pytest.mark.parametrize(
    ("max_seconds", "both_at_once", "wanted"),
    # in 24 s: rounds of 2 or 3 times (1.15 * 20 + 4) * 0.1 s, or 1.15 + 4 * 0.1 s
    [(100.0, False, 4), (1.0, False, 7), (100.0, True, 2), (1.0, True, 5)],
)
def test_rounds_fit_in_time_of_samples(max_seconds, both_at_once, wanted):
    measure = SimpleNamespace(max_iterations=20, warmup_iterations=2, max_seconds=max_seconds)
    config = made(PairMatrixConfig, minutes=1.0, measure=measure, both_at_once=both_at_once)
    rank = SimpleNamespace(index=0, world_size=2, seconds_of=lambda *steps, turns: [[0.098, 0.05]] * len(steps))
    buffers = [allocate(8, torch.device("cpu"))]
    assert num_affordable(config, rank, Schedule(["a", "b"]), buffers) == wanted


@pytest.mark.slow
def test_little_time_leaves_out_rounds(cli: Cli):
    given = ["world_size=5", "sizes=1KiB", "minutes=0.00001", "groups=[]", "measure=few"]
    done = cli("+suite=pair_matrix", *given)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert len(record["cases"]) == 2
