from dataclasses import replace

import pytest
from benchkit.api.keys import HardwareConfig
from benchkit.errors import ConfigError
from benchkit.record.record import AgentReport

from tests.support.configs import agent_group, assignments, config
from tests.support.entries.launch_ranks import PrivateNetwork
from tests.support.entries.point import (
    AgentFacts,
    backend_mismatch,
    lack_of_gpus,
    oversubscribed_points,
    place_ranks,
    rank_environment,
)
from tests.support.entries.rank import Rendezvous


def test_auto_world_size_on_cpu_follows_agents():
    assert place_ranks(config(), agent_group("n1")).world_size == 2
    assert place_ranks(config(), agent_group("n1", "n1")).world_size == 2
    assert place_ranks(config(), agent_group("n1", "n1", "n2", "n2")).world_size == 4
    assert place_ranks(config(world_size=6), agent_group("n1", "n2")).world_size == 6


def test_auto_world_size_counts_visible_gpus():
    three = ["a", "b", "c"]
    assert place_ranks(config(device="cuda"), agent_group("n1", gpus=[three])).world_size == 3
    assert place_ranks(config(device="cuda", ranks_per_device=2), agent_group("n1", gpus=[three])).world_size == 6
    assert place_ranks(config(device="cuda"), agent_group("n1", "n2", gpus=[three, ["d", "e"]])).world_size == 4
    shares = config(device="cuda", hardware=HardwareConfig("cuda", 2, 2, {}, "mps", "auto"))
    assert place_ranks(shares, agent_group("n1", gpus=[three])).world_size == 2
    all_seen = agent_group(*["n1"] * 3, gpus=[three] * 3)
    assert place_ranks(config(device="cuda"), all_seen).world_size == 3
    one_each = agent_group(*["n1"] * 3, gpus=[["a"], ["b"], ["c"]])
    assert place_ranks(config(device="cuda"), one_each).world_size == 3


def test_ranks_follow_agent_order():
    hosts = ("n1", "n1", "n2", "n2")
    for me in range(4):
        places = place_ranks(config(world_size=8), agent_group(*hosts, me=me)).places
        assert [place.rank for place in places] == [2 * me, 2 * me + 1]
        assert [place.local_rank for place in places] == [2 * (me % 2), 2 * (me % 2) + 1]
        assert {place.local_world_size for place in places} == {4}
    recorded = place_ranks(config(world_size=8), agent_group(*hosts)).agents
    assert [(agent.host, agent.ranks) for agent in recorded][2] == ("n2", [4, 5])


def test_agents_take_distinct_gpus():
    same = [["a", "b", "c", "d"]] * 2
    own = [["a", "b"], ["c", "d"]]
    for gpus, expected in ((same, [2, 3]), (own, [0, 1])):
        places = place_ranks(config(device="cuda", world_size=4), agent_group("n1", "n1", me=1, gpus=gpus)).places
        assert [place.device_index for place in places] == expected
    shared = place_ranks(
        config(device="cuda", world_size=4, ranks_per_device=2), agent_group("n1", gpus=[["a", "b"]])
    ).places
    assert [place.device_index for place in shared] == [0, 0, 1, 1]


def test_impossible_placement_has_problem(golden):
    one_gpu = agent_group("n1", gpus=[["a"]])
    problems = []
    for changes, where in (
        ({"world_size": 3}, agent_group("n1", "n2")),
        ({"device": "cuda", "world_size": 4}, one_gpu),
        ({"device": "cuda", "world_size": 7, "ranks_per_device": 2}, one_gpu),
        ({"device": "cuda", "world_size": 2}, agent_group("n1", "n2", gpus=[["a"], []])),
        ({"slowdown": [1, 2, 3]}, agent_group("n1")),
    ):
        plan = place_ranks(config(**changes), where)
        assert plan.places == []
        problems.append(plan.problem)
    golden("\n".join(problems))


def test_backend_that_does_not_suit_the_device_has_reason(golden):
    for sound in (config(), config("nccl", "cuda"), config("gloo", "cuda", ranks_per_device=2)):
        assert backend_mismatch(sound) is None
    golden("\n".join(map(backend_mismatch, (config("nccl", "cpu"), config("nccl", "cuda", ranks_per_device=2)))))


def test_nccl_shares_a_gpu_where_its_variable_says_so():
    sharing = config("nccl", "cuda", ranks_per_device=2)
    sharing.backend.env["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
    assert backend_mismatch(sharing) is None


def test_interface_that_a_private_network_lacks_is_refused(golden):
    asked, where = config(), agent_group("n1")
    asked.backend.env["GLOO_SOCKET_IFNAME"] = "eth0"
    assert not place_ranks(asked, where).problem
    where.network = PrivateNetwork(1, (), ())
    golden(place_ranks(asked, where).problem)
    assert not place_ranks(replace(asked, private_network=False), where).problem
    asked.backend.env["GLOO_SOCKET_IFNAME"] = "lo"
    assert not place_ranks(asked, where).problem


def test_lack_of_gpus_has_advice(golden):
    advice = [
        lack_of_gpus(AgentFacts(AgentReport(host="n1", **report), [], lack))
        for report, lack in (
            ({"torch": "2.13.0+cpu"}, "not built"),
            ({"cuda": "13.0"}, "the driver is too old"),
            ({"cuda": "13.0", "variables": {"CUDA_VISIBLE_DEVICES": "9"}}, "No GPUs"),
            ({"hip": "7.0", "variables": {"HIP_VISIBLE_DEVICES": "0"}}, ""),
        )
    ]
    golden("\n".join(advice))
    assert lack_of_gpus(AgentFacts(AgentReport(host="n1", cuda="13.0"), [])) == ""


def test_threads_divide_cores_of_host():
    assert place_ranks(config(world_size=2), agent_group("n1")).threads == 2
    assert place_ranks(config(world_size=8), agent_group("n1")).threads == 1
    assert place_ranks(config(world_size=4), agent_group("n1", "n1")).threads == 1  # both may use the same four
    bound = agent_group("n1", "n1", cores=[[0, 1], [2, 3]])
    assert place_ranks(config(world_size=2), bound).threads == 2
    assert place_ranks(config(world_size=2), agent_group("n1", available=3)).threads == 1  # a quota
    assert place_ranks(config(world_size=2), agent_group("n1", "n2", cores=[[0, 1, 2, 3], [0, 1]])).threads == 2
    assert place_ranks(config(threads_per_rank=5), agent_group("n1")).threads == 5


@pytest.mark.parametrize(
    ("asked", "where", "host"),
    [
        ({"world_size": 4}, agent_group("n1"), None),
        ({"world_size": 2, "threads_per_rank": 3}, agent_group("n1"), "n1"),
        ({"world_size": 8}, agent_group("n1", "n2"), None),  # four on each
        ({"world_size": 8}, agent_group("n1", "n1"), "n1"),
        ({"world_size": 8}, agent_group("n1", "n2", cores=[[0, 1, 2, 3], [0, 1]]), "n2"),
        ({"world_size": 2}, agent_group("n1", available=1), "n1"),  # a quota
        ({"world_size": 9}, agent_group("n1", "n1"), None),  # does not run
    ],
)
def test_more_threads_than_cores_of_host_are_oversubscribed(asked, where, host):
    plan = place_ranks(config(**asked), where)
    assert bool(plan.oversubscription) == bool(host)
    assert (plan.oversubscription or "").partition(",")[0].endswith(host or "")


def test_start_of_sweep_counts_oversubscribed_points(golden):
    sizes = [config(world_size=size) for size in (2, 4, 8, 16)]
    assert oversubscribed_points(sizes[:2], agent_group("n1")) is None
    golden(oversubscribed_points(sizes, agent_group("n1")))


def test_agents_bound_to_fewer_cores_are_warned_of(golden):
    two = config(world_size=2)
    assert place_ranks(two, agent_group("n1", "n1", cpuset=range(4))).warnings == ()
    for cores in ([[0, 1, 2, 3], [3]], [[0, 1], [2, 3]], [[3], [3]]):
        [warning] = place_ranks(two, agent_group("n1", "n1", cores=cores, cpuset=range(4))).warnings
        assert f"{min(map(len, cores))} of 4" in warning
    bound = agent_group("n1", "n2", "n3", cores=[[0], [0], [0, 1, 2, 3]], cpuset=range(4))
    golden("\n".join(place_ranks(config(world_size=3), bound).warnings))


def test_rank_environment_matches_torchrun():
    plan = place_ranks(config(world_size=4), agent_group("n1", "n2", me=1))
    environment = rank_environment(assignments(config(), plan)[1])
    expected = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "A": "b"}
    assert expected.items() <= environment.items()


def test_variable_reaches_ranks_as_it_is_recorded_or_is_refused():
    for device in ("cuda", "cpu"):
        asked = config(device=device, world_size=2, slowdown=2)
        asked.check()
        plan = place_ranks(asked, agent_group("n1", gpus=[["a", "b"]]))
        meeting = Rendezvous(file="/proc/1/fd/3").environment()
        for name in {**meeting, **rank_environment(assignments(asked, plan)[0]), "MKL_NUM_THREADS": ""}:
            asked.backend.env = {name: "7"}
            if is_refused(asked):
                continue
            assert rank_environment(assignments(asked, plan)[0])[name] == "7"
            assert name not in ("BENCHKIT_MEETING_FILE", "MKL_NUM_THREADS")


def is_refused(wanted):
    try:
        wanted.check()
    except ConfigError:
        return True
    return False


def test_nccl_does_not_abort_gpu_ranks():
    """The agent ends them: an abort would hide why the first one failed."""
    name = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
    for device, expected in (("cuda", "0"), ("cpu", None)):
        asked = config(device=device, world_size=2)
        plan = place_ranks(asked, agent_group("n1", gpus=[["a", "b"]]))
        assert rank_environment(assignments(asked, plan)[0]).get(name) == expected
        asked.backend.env[name] = "3"
        assert rank_environment(assignments(asked, plan)[0])[name] == "3"


def test_slowdown_applies_to_last_rank_or_each():
    assert place_ranks(config(), agent_group("n1")).slowdown == (1.0, 1.0)
    assert place_ranks(config(world_size=3, slowdown=4), agent_group("n1")).slowdown == (1.0, 1.0, 4.0)
    assert place_ranks(config(slowdown=[3, 1.5]), agent_group("n1")).slowdown == (3, 1.5)


@pytest.mark.parametrize(("device", "share"), [("cuda", 101), ("cpu", 50)])
def test_share_of_rank_at_full_speed_needs_mps(device, share):
    wrong = config(device=device)
    wrong.hardware.full_share = share
    with pytest.raises(ConfigError, match=f"hardware.full_share={share}"):
        wrong.check()


@pytest.mark.parametrize(
    ("slowdown", "slow_by", "full_share", "shares"),
    [
        (1, "auto", "auto", [None, None]),
        (1, "mps", "auto", ["50", "50"]),
        (1, "auto", 80, ["80", "80"]),
        (2.5, "auto", "auto", ["50", "20"]),
        (2.5, "auto", 100, ["100", "40"]),
    ],
)
def test_slowed_ranks_get_gpu_shares(slowdown, slow_by, full_share, shares):
    asked = config(device="cuda", world_size=2, ranks_per_device=2, slowdown=slowdown)
    asked.hardware.slow_by, asked.hardware.full_share = slow_by, full_share
    assert shares_of(asked, agent_group("n1", gpus=[["a"]])) == shares
    assert shares_of(config(slowdown=slowdown), agent_group("n1")) == [None, None]


def shares_of(asked, where):
    plan = place_ranks(asked, where)
    return [rank_environment(each).get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") for each in assignments(asked, plan)]
