"""The command line of compare: what it asks for, and why it is refused, at once and in one line."""

import contextlib
from unittest.mock import Mock

import pytest
from analysis.compare.pairs import PairJudge
from benchkit.compare import command, session
from benchkit.compare.command import parse
from benchkit.compare.session import RunCutOff, RunFailed
from benchkit.errors import ConfigError, HostBusy
from benchkit.record.naming import escape_unprintable

SUITE = "+suite=allreduce"


def test_words_may_stand_in_any_order():
    asked = parse(["--pairs", "8", "plain", SUITE, "env:A=1", "--fail-on", "3%", "--", "-m", "data_size=1,10"])
    assert (asked.arms, asked.overrides) == (["plain", "env:A=1"], [SUITE, "-m", "data_size=1,10"])
    assert (asked.options.pairs, asked.options.fail_on, asked.options.statistic) == (8, 0.03, "p25")
    auto = parse(["plain", "plain", SUITE, "--fail-on", "0.1"])
    assert (auto.options.pairs, auto.options.max_pairs, auto.options.fail_on) == (None, 50, 0.1)
    assert parse(["plain", "plain", "--config-dir", "conf", SUITE]).overrides == ["--config-dir", "conf", SUITE]


@pytest.mark.parametrize("word", ["--dry-run", "--retry", "launcher=slurm", "seed=1", "on_end=\udcff"])
def test_what_is_of_sweeps_alone_is_refused(word):
    with pytest.raises(ConfigError) as refused:
        parse(["plain", "env:A=1", SUITE, word])
    assert escape_unprintable(word) in str(refused.value)


@pytest.fixture
def config_of(tmp_path, monkeypatch):
    """Returns what a comparison goes by, as composed from its command line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf" / "sweep").mkdir(parents=True)
    sweep = "# @package _global_\ndefaults:\n  - /suite: allreduce\n{}  - _self_\nhost_wait_s: 7\n"
    (tmp_path / "conf" / "sweep" / "mine.yaml").write_text(sweep.format(""))
    (tmp_path / "conf" / "sweep" / "queued.yaml").write_text(sweep.format("  - override /launcher: submitit_local\n"))
    monkeypatch.setenv("WAIT", "3")

    def read(*words):
        plan = command.new_plan(parse(words), tmp_path / "compare")
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        with monkeypatch.context() as during:
            during.chdir(tmp_path / "elsewhere")
            with session.working_directory_of(plan):
                return session.config_of(plan)

    return read


ELSEWHERE = ("tree:.", "tree:conf")
"""Arms whose code is not that of the comparison."""


@pytest.mark.parametrize("arms", [("plain", "env:A=1"), ("plain", "tree:."), ELSEWHERE])
@pytest.mark.parametrize(
    ("words", "host_wait_s"),
    [
        ((SUITE,), 3600), ((SUITE, "host_wait_s=10m"), 600), ((SUITE, "host_wait_s=5", "-m", "host_wait_s=0.5"), 0.5),
        ((SUITE, "host_wait_s=choice(1,2)"), 1), ((SUITE, "++host_wait_s=1e2"), 100),
        ((SUITE, "host_wait_s=${oc.env:WAIT}"), 3), ((SUITE, "host_wait_s=${timeout_s}", "timeout_s=1m"), 60),
        (("--config-dir", "conf", "sweep=mine"), 7), (("--config-dir", "conf", "sweep=mine", "host_wait_s=2min"), 120),
    ],
)  # fmt: skip
def test_comparison_goes_by_the_composed_values(config_of, arms, words, host_wait_s):
    assert config_of(*arms, *words).host_wait_s == host_wait_s


@pytest.mark.parametrize(("word", "trusts"), [("yes", True), ("TRUE", True), ("0", False), ("off", False)])
def test_trust_is_the_composed_one(config_of, word, trusts):
    config = config_of("plain", "plain", SUITE, f"trust_network={word}", "join_timeout_s=1500ms")
    assert (config.trust_network, config.join_timeout_s) == (trusts, 1.5)


def test_keys_of_other_code_keep_no_comparison_from_its_own(config_of):
    others = ("+suite=theirs", "unknown_here=1", "host_wait_s=10m")
    assert config_of(*ELSEWHERE, *others).host_wait_s == 600
    with pytest.raises(ConfigError, match="theirs"):
        config_of("plain", "tree:.", *others)
    with pytest.raises(ConfigError, match="host_wait_s=soon"):
        config_of(*ELSEWHERE, *others[:2], "host_wait_s=soon")


@pytest.mark.parametrize("words", [("--config-dir", "conf", "sweep=queued"), (SUITE, "--cfg", "job")])
def test_what_measures_elsewhere_or_nothing_is_refused(config_of, words):
    with pytest.raises(ConfigError, match=r"allowed|not with compare"):
        config_of("plain", "plain", *words)


@pytest.mark.parametrize(
    ("error", "code"), [(RunFailed("killed"), 1), (RunCutOff("the disk is full"), 2), (HostBusy("the host"), 2)]
)
def test_only_failures_are_worse(tmp_path, monkeypatch, error, code):
    """1 is what a slower point gives: what keeps a comparison from being made gives 2."""
    monkeypatch.setattr(session, "lock_hosts", lambda agents, wait_s: contextlib.nullcontext())
    monkeypatch.setattr(session, "run_all", Mock(side_effect=error))
    words = ["plain", "plain", SUITE, "--dir", str(tmp_path / "compare")]
    assert session.main(words, PairJudge) == code
