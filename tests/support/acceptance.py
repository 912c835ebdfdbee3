"""Records of acceptances, made up."""

import numpy as np
from benchkit.suites.pair_matrix.schedule import Schedule, sends_to
from benchkit.suites.pair_matrix.suite import IDLE

from tests.support.records import make_record

HOSTS = [f"n{rank // 2}" for rank in range(8)]
SAMPLES = 10


def record(suite, cases, hosts, devices, **changes):
    agents = [
        {"host": host, "ranks": [rank for rank, other in enumerate(hosts) if other == host]}
        for host in dict.fromkeys(hosts)
    ]
    of_ranks = [
        {"device": "cuda:0", "name": "NVIDIA H200", "uuid": f"GPU-{rank}", "pci": f"0000:{rank:02}:00.0"}
        if devices else {"device": "cpu"} for rank in range(len(hosts))
    ]  # fmt: skip
    made = make_record(world_size=len(hosts))
    return made | {"suite": suite, "title": suite, "cases": cases, "agents": agents, "rank_devices": of_ranks} | changes


def case(labels, details, times):
    return make_record()["cases"][0] | {
        "labels": labels, "details": details, "samples_s": times.tolist(), "blocks": [1] * SAMPLES,
        "warmup_s": [[0.1]] * len(times), "start_offsets_s": np.zeros_like(times).tolist(),
    }  # fmt: skip


def noisy(rng, base, noise):
    return base[:, None] * np.exp(noise * rng.standard_normal((len(base), SAMPLES)))


def pairs(slow=lambda i, j: 1.0, hosts=HOSTS, seed=0, devices=True, at_once=None, noise=0.02, **changes):
    """A record of pair_matrix: 1 ms on a node, 3 ms across, times `slow(sender, receiver)`.

    `at_once` has messages both ways at once, too, which take as much as it says.
    """
    rng, schedule, cases = np.random.default_rng(seed), Schedule(hosts), []
    for number in range(schedule.num_rounds):
        peers = schedule.peers(number)
        ways = {"ascending": (sends_to(peers, True), slow), "descending": (sends_to(peers, False), slow)}
        for direction, (target, slower) in (ways | ({"both": (peers, at_once)} if at_once else {})).items():
            base = np.full(len(hosts), 1e-6)
            for i, j in enumerate(target):
                if j != IDLE:
                    base[i] = (1e-3 if hosts[i] == hosts[j] else 3e-3) * slower(i, j)
            labels = {"round": number, "direction": direction, "data_size": 4.0}
            cases.append(case(labels, {"sends_to": target.tolist()}, noisy(rng, base, noise)))
    groups = [rank // 4 for rank in range(len(hosts))]
    of_groups = noisy(rng, np.full(len(hosts), 1e-3), noise)
    cases.append(case({"group": "halves", "data_size": 4.0}, {"group_of": groups}, of_groups))
    return record("pair_matrix", cases, hosts, devices, **changes)


def speeds(slow=lambda rank: 1.0, hosts=HOSTS, seed=1, devices=True, share=0.9, noise=0.02, **changes):
    """A record of rank_speed whose copy reaches a share of the memory bandwidth of an H200."""
    base = np.array([slow(rank) * 1e9 / (share * 4.8e12) for rank in range(len(hosts))])
    cases = [case({"test": "copy"}, {"moved_bytes": 10**9}, noisy(np.random.default_rng(seed), base, noise))]
    return record("rank_speed", cases, hosts, devices, **changes)
