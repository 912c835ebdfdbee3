"""Which words of a command line and which variables are written down without their values."""

import pytest
import yaml
from benchkit import environment
from benchkit.api.keys import described_keys
from benchkit.api.registry import load_suites
from benchkit.compare import arms, command
from benchkit.errors import ConfigError
from benchkit.secrets import (
    HIDDEN,
    WORDS,
    has_secret,
    names_secret,
    restore_secrets,
    shown,
    shown_config,
    shown_word,
    without_secrets,
)

from tests.support.cli import ROOT

SECRET = "hunter2"


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("form", ["{0}", "MY_{0}", "{0}_2", "X-{0}-ID", "ucx.{0}", "+backend.env.A_{0}"])
def test_words_in_names_announce_secrets(form, word):
    for name in (form.format(word), form.format(word.lower())):
        assert names_secret(name) is (name.upper() != "PWD"), name


HARMLESS = ["PATH", "NCCL_IB_PKEY", "+backend.env.UCX_IB_PKEY", "backend.env.PWD", "AUTHOR", "PASSES", "UCX_PASSIVE"]


@pytest.mark.parametrize("name", HARMLESS)
def test_other_names_announce_none(name):
    assert not names_secret(name)
    assert shown(name, "x") == "x"


@pytest.mark.parametrize("name", ["NCCL_APIKEY", "NCCL_AUTHTOKEN", "UCX_ROOTPASSWORD", "MY_CLIENTSECRET", "X-Api-Key"])
def test_names_may_be_written_together(name):
    assert names_secret(name)


def test_keys_of_ours_announce_none():
    keys = {key for suite in load_suites().values() for key in described_keys(suite.config)}
    studies = [yaml.safe_load(path.read_text()) for path in (ROOT / "conf" / "study").glob("*.yaml")]
    parameters = {str(name) for study in studies for name in study.get("parameters") or {}}
    assert [key for key in sorted(keys | parameters) if has_secret(f"{key}=x")] == []


VALUES = [
    SECRET, f"'{SECRET} b'", f'"{SECRET} b"', f"'a'\"'\"'{SECRET}'", f"a,{SECRET}", f"choice('{SECRET}','b')",
    f"[{SECRET},b]", f"{{a:{SECRET}}}", f'\\"{SECRET}\\"', f"Bearer {SECRET}", f"a,'{SECRET} b'", f"x$HOME{SECRET}",
]  # fmt: skip
PLACES = [
    "A_TOKEN={}", "+backend.env.A_TOKEN={}", "on_end=A_TOKEN={} curl x", "on_end=curl -H Authorization:{}",
    "on_end=run --api-key {} x", "on_end=run --api-key={} x", "hydra.launcher.setup=[export A_TOKEN={}]",
    "seed=1,+backend.env.A_TOKEN={},world_size=2", "on_end=curl -d password:{}",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", VALUES)
def test_no_part_of_a_value_is_shown(place, value):
    word = place.format(value)
    assert SECRET not in shown_word(word)
    assert SECRET not in without_secrets(word)
    assert HIDDEN in shown_word(word)
    assert shown_word(shown_word(word)) == shown_word(word)


TEXTS = [
    ("curl -H 'Authorization: Bearer abc' -d \"x\" u", "curl -H 'Authorization: Bearer …' -d \"x\" u"),
    ("curl https://abc@h/x https://u:abc@h ssh://u:abc@h", "curl https://…@h/x https://…@h ssh://u:…@h"),
    ("curl -u me:abc https://h --user 'me:abc'", "curl -u me:… https://h --user 'me:…'"),
    ("curl -d '{\"token\": \"abc\", \"n\": 1}'", "curl -d '{\"token\": …, \"n\": 1}'"),
    ("rsync ssh://me@h:x https://h/a@b", "rsync ssh://me@h:x https://h/a@b"),
    ("X_TOKEN=$T Y_TOKEN=\"${T}\" --token $(cat f)", "X_TOKEN=$T Y_TOKEN=\"${T}\" --token $(cat f)"),
    ("curl -H \"Authorization: Bearer $T\" -u me:$T", "curl -H \"Authorization: Bearer $T\" -u me:$T"),
    ("echo a key, and = the pass", "echo a key, and = the pass"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_commands_lose_their_secrets_alone(text, expected):
    assert without_secrets(text) == expected


LITERAL = [
    ("A_TOKEN", "$ecret"), ("A_TOKEN", "$2b$10$ecret"), ("A_TOKEN", "${oc.env:A,ecret}"),
    ("A_TOKEN", "x${oc.env:ecret}"), ("A_TOKEN", "…ecret"), ("on_end", "… token=ecret"),
    ("on_end", "--token '$ecret'"), ("on_end", "--token $2b$10$ecret"), ("on_end", "--token ${oc.env:A,ecret} x"),
    ("on_end", "token=ecret ${oc.env:A}"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), LITERAL)
def test_what_only_looks_like_a_reference_is_hidden(name, value):
    assert "ecret" not in shown(name, value)
    assert "ecret" not in shown_config({name: ""}, typed={name: value})[name]
    assert "ecret" not in shown_word(f"{name}={value}")


def test_variables_of_the_environment():
    found = environment.variables(
        {"NCCL_AUTH": SECRET, "NCCL_DEBUG": "INFO", "NCCL_X": f"a token={SECRET}", "HOME": "/"}
    )
    assert found == {"NCCL_AUTH": "…", "NCCL_DEBUG": "INFO", "NCCL_X": "a token=…"}


def test_configuration_is_copied_without_secrets():
    config = {"suite": "s", "seed": 3, "backend": {"env": {"A_PSK": SECRET, "B": "$C"}}, "on_end": f"--token {SECRET}"}
    kept = {"suite": "s", "seed": 3, "backend": {"env": {"A_PSK": "…", "B": "${oc.env:B}"}}, "on_end": "--token …"}
    assert shown_config(config, typed={"backend.env.B": "${oc.env:B}"}) == kept
    assert config["backend"]["env"]["A_PSK"] == SECRET


def test_words_are_filled_in_by_what_they_were_made_from():
    kept = ["seed=1", "A_TOKEN=…", "on_end=echo …", "A_TOKEN=…"]
    typed = ["A_TOKEN=1", "A_TOKEN=2"]
    assert restore_secrets(kept, typed, "--resume s") == ["seed=1", "A_TOKEN=1", "on_end=echo …", "A_TOKEN=2"]
    for given in (typed[:1], [*typed, "B_TOKEN=3"], ["A_TOKEN=1", "B_TOKEN=3"]):
        with pytest.raises(ConfigError, match=r"_TOKEN=…") as told:
            restore_secrets(kept, given, "--resume s")
        assert "\n" not in str(told.value)


def test_plan_of_a_comparison_is_restored(tmp_path):
    typed = [f"env:A_TOKEN={SECRET} b,B=1", f"set:+backend.env.O_PSK=choice('{SECRET}','b'),seeds=3", "plain"]
    words = ["+suite=allreduce", f"+backend.env.C_KEY={SECRET}"]
    made = command.new_plan(command.parse([*typed, *words]), tmp_path)
    assert made.arms[0].environment == {"A_TOKEN": f"{SECRET} b", "B": "1"}
    assert [arm.text for arm in made.arms] == ["env:A_TOKEN=…,B=1", "set:+backend.env.O_PSK=…,seeds=3", "plain"]
    command.write_plan(made, tmp_path)
    assert SECRET not in (tmp_path / command.FILE_NAME).read_text()
    secrets = [*typed[:2], words[1]]
    assert command.parse(["--resume", str(tmp_path), *secrets]) == command.Resumed(tmp_path, secrets)
    assert command.read_plan(tmp_path, secrets) == made
    assert command.read_plan(tmp_path, secrets).digest() == made.digest()
    for missing in range(3):
        with pytest.raises(ConfigError, match=r"=…"):
            command.read_plan(tmp_path, secrets[:missing] + secrets[missing + 1 :])
    assert arms.without_secrets("git:v1") == "git:v1"


@pytest.mark.parametrize("form", ["env:A_TOKEN={}", "set:+backend.env.A_TOKEN={}", "set:on_end='curl -u me:{} x'"])
def test_arms_that_differ_by_a_secret_alone_are_refused(form):
    """Nothing would say which of them a result is of."""
    with pytest.raises(ConfigError, match="…") as told:
        command.parse([form.format("x"), "plain", form.format("z"), "+suite=allreduce"])
    assert "\n" not in str(told.value)
    assert command.parse([form.format("x"), form.format("x"), "+suite=allreduce"])
