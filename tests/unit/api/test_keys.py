from dataclasses import replace

import pytest
from benchkit.api.keys import Key, check_ranges
from benchkit.errors import ConfigError

from tests.support.fakes import plan


@pytest.mark.parametrize(
    ("key", "words", "good", "bad"),
    [
        (Key("x", unit="s", above=0), "> 0 s", [0.1, 5], [0, -1, float("nan"), float("inf"), "a"]),
        (Key("x", at_least=1), ">= 1", [1, 2], [0, "auto", True]),
        (Key("x", at_least=1, choices=("auto",)), "auto or >= 1", [1, "auto"], [0, "all"]),
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


def test_check_ranges_names_allowed_values():
    with pytest.raises(ConfigError, match=r"^max_seconds=0: allowed is > 0 s \(measuring time"):
        check_ranges(replace(plan(), max_seconds=0))


def test_check_ranges_accepts_none():
    check_ranges(plan(target_rel_ci=None))
