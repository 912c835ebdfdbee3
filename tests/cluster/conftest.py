"""Hosts that the kernel pretends."""

from collections.abc import Iterator

import pytest

from tests.support import hosts


@pytest.fixture
def two_hosts(cli) -> Iterator[list[str]]:
    with hosts.two_hosts(cli.mark) as names:
        yield names


@pytest.fixture
def two_ipv6_hosts(cli) -> Iterator[list[str]]:
    with hosts.two_hosts(cli.mark, "fd00:99:7::{}/64 nodad") as names:
        yield names
