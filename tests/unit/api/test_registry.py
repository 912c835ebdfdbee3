"""What a function must have to be a suite."""

import pytest
from benchkit.api.registry import suite
from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError


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


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (without_docstring, "without_docstring: a suite needs a docstring; its first line is the summary"),
        (without_config, "without_config: allowed as its first parameter is a dataclass of RunConfig"),
    ],
)
def test_function_that_is_no_suite_is_refused(build, said):
    with pytest.raises(ConfigError, match=said):
        suite(build)


def test_first_line_is_summary():
    assert (suite(sound).name, suite(sound).summary) == ("sound", "A summary.")
