"""What keys allow, what a function must have to be a suite, and what a suite may know of its rank."""

from dataclasses import replace

import pytest
import torch
from benchkit.api.case import Rank
from benchkit.api.keys import Key, RunConfig, check_ranges
from benchkit.api.registry import suite
from benchkit.errors import ConfigError

from tests.support.fakes import plan

GIB = 2**30


@pytest.mark.parametrize(
    ("key", "words", "good", "bad"),
    [
        (Key("x", unit="s", above=0), "> 0 s", [0.1, 5], [0, -1, float("nan"), float("inf"), "a"]),
        (Key("x", at_least=1, choices=("auto",)), "auto or >= 1", [1, "auto"], [0, "all", True]),
        (Key("x", choices=("a", "b")), "a|b", ["a"], ["c", 1]),
        (Key("x", above=0, below=1), "> 0 and < 1", [0.5], [0, 1]),
        (Key("x", choices=("true", "false", "a")), "true|false|a", [True, False, "a"], ["b", 1]),
        (Key("x"), "", ["anything", 3], []),
    ],
)
def test_key_accepts_allowed_values(key, words, good, bad):
    assert key.allowed() == words
    assert all(key.accepts(value) for value in good)
    assert not any(key.accepts(value) for value in bad)


def test_ranges_are_checked():
    check_ranges(plan(target_rel_ci=None))
    with pytest.raises(ConfigError, match=r"^max_seconds=0: "):
        check_ranges(replace(plan(), max_seconds=0))


def without_docstring(config: RunConfig, rank: object) -> list:
    return []


def without_config(config: dict, rank: object) -> list:
    """A summary."""
    return []


def sound(config: RunConfig, rank: object) -> list:
    """A summary.

    And more.
    """
    return []


def test_suite_has_a_configuration_and_a_summary():
    assert (suite(sound).name, suite(sound).summary) == ("sound", "A summary.")
    for build, word in ((without_docstring, "docstring"), (without_config, "RunConfig")):
        with pytest.raises(ConfigError, match=word):
            suite(build)


@pytest.mark.parametrize(
    ("device", "needed_bytes", "said"),
    [
        ("cpu", (3 * GIB, GIB), ""),
        ("cpu", (3 * GIB, 2 * GIB), "2 ranks x 5 GiB, 8 GiB there"),
        ("cuda", (4 * GIB, 5 * GIB), ""),
        ("cuda", (5 * GIB, 5 * GIB), "2 ranks x 5 GiB, 8 GiB there"),
        ("cuda", (4 * GIB, 6 * GIB), "4 ranks x 6 GiB of host memory, 20 GiB there"),
    ],
)
def test_host_and_gpu_memory_are_apart(device, needed_bytes, said):
    unused = {"index": 0, "world_size": 2, "seed": 0, "memory": None, "shares": (), "seconds_of": None}
    unused |= {"group": None, "subgroup": None}
    memory = {"sharers": 2, "available_bytes": 8 * GIB, "host_sharers": 4}
    memory["host_available_bytes"] = 20 * GIB
    shortage = Rank(**unused, **memory, device=torch.device(device)).memory_shortage(*needed_bytes)
    assert shortage.removeprefix("needs ") == said
