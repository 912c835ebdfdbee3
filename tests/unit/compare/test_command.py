"""The command line of compare: what it asks for, and why it is refused, at once and in one line."""

import contextlib
from unittest.mock import Mock

import pytest
from benchkit.compare import session
from benchkit.compare.command import parse
from benchkit.compare.session import RunCutOff, RunFailed
from benchkit.errors import ConfigError, HostBusy

SUITE = "+suite=allreduce"


def test_words_may_stand_in_any_order():
    asked = parse(["--pairs", "8", "plain", SUITE, "env:A=1", "--fail-on", "3%", "--", "-m", "data_size=1,10"])
    assert (asked.arms, asked.overrides) == (["plain", "env:A=1"], [SUITE, "-m", "data_size=1,10"])
    assert (asked.options.pairs, asked.options.fail_on, asked.options.statistic) == (8, 0.03, "p25")
    auto = parse(["plain", "plain", SUITE, "--fail-on", "0.1"])
    assert (auto.options.pairs, auto.options.max_pairs, auto.options.fail_on) == (None, 50, 0.1)
    assert parse(["plain", "plain", "--config-dir", "conf", SUITE]).overrides == ["--config-dir", "conf", SUITE]


@pytest.mark.parametrize("word", ["--dry-run", "--retry", "launcher=slurm", "seed=1"])
def test_what_is_of_sweeps_alone_is_refused(word):
    with pytest.raises(ConfigError, match=word):
        parse(["plain", "env:A=1", SUITE, word])


def test_last_typed_seconds_count():
    typed = ["+suite=allreduce", "host_wait_s=5", "-m", "host_wait_s=0.5", "join_timeout_s=choice(1)"]
    assert session.number_of("host_wait_s", typed, 3600.0) == 0.5
    assert session.number_of("join_timeout_s", typed, 60.0) == 60.0
    assert session.number_of("host_wait_s", [], 3600.0) == 3600.0


@pytest.mark.parametrize(
    ("error", "code"), [(RunFailed("killed"), 1), (RunCutOff("the disk is full"), 2), (HostBusy("the host"), 2)]
)
def test_only_failures_are_worse(tmp_path, monkeypatch, error, code):
    """1 is what a slower point gives: what keeps a comparison from being made gives 2."""
    monkeypatch.setattr(session, "hosts_to_ourselves", lambda agents, wait_s: contextlib.nullcontext())
    monkeypatch.setattr(session, "run_all", Mock(side_effect=error))
    words = ["plain", "plain", SUITE, "--dir", str(tmp_path / "compare")]
    assert session.main(words, lambda arguments: "") == code
