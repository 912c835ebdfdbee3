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
    mask_config,
    mask_secrets,
    mask_value,
    mask_word,
    names_secret,
    restore_secrets,
)

from tests.support.cli import ROOT

SECRET = "hunter2"


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(
    "form", ["{0}", "MY_{0}", "{0}_2", "X-{0}-ID", "ucx.{0}", "+backend.env.A_{0}", "A_{0}S", "{0}1"]
)
def test_words_in_names_announce_secrets(form, word):
    for name in (form.format(word), form.format(word.lower())):
        assert names_secret(name) is (name.upper() != "PWD"), name


HARMLESS = [
    "PATH", "NCCL_IB_PKEY", "+backend.env.UCX_IB_PKEY", "backend.env.PWD", "AUTHOR", "PASSES", "UCX_PASSIVE",
    "PSM3_PKEY", "MV2_DEFAULT_PKEY", "NVSHMEM_IB_PKEY", "OMPI_MCA_btl_openib_pkey",
]  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS)
def test_other_names_announce_none(name):
    assert not names_secret(name)
    assert mask_value(name, "x") == "x"


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
    assert SECRET not in mask_word(word)
    assert SECRET not in mask_secrets(word)
    assert HIDDEN in mask_word(word)
    assert mask_word(mask_word(word)) == mask_word(word)


TEXTS = [
    ("curl -H 'Authorization: Bearer abc' -d \"x\" u", "curl -H 'Authorization: Bearer …' -d \"x\" u"),
    ("curl https://abc@h/x https://u:abc@h ssh://u:abc@h", "curl https://…@h/x https://…@h ssh://u:…@h"),
    ("curl -u me:abc https://h --user 'me:abc'", "curl -u me:… https://h --user 'me:…'"),
    ("curl -d '{\"token\": \"abc\", \"n\": 1}'", "curl -d '{\"token\": …, \"n\": 1}'"),
    ("rsync ssh://me@h:x https://h/a@b", "rsync ssh://me@h:x https://h/a@b"),
    ("X_TOKEN=$T Y_TOKEN=\"${T}\" --token $(cat f)", "X_TOKEN=$T Y_TOKEN=\"${T}\" --token $(cat f)"),
    ("curl -H \"Authorization: Bearer $T\" -u me:$T", "curl -H \"Authorization: Bearer $T\" -u me:$T"),
    ("echo a key, and = the pass", "echo a key, and = the pass"),
    ("x git+https://abc@h --i=git+ssh+https://u:abc@h", "x git+https://…@h --i=git+ssh+https://…@h"),
    ("postgresql+psycopg2://u:abc@h redis+tls://:abc@h/0", "postgresql+psycopg2://u:…@h redis+tls://:…@h/0"),
    ("postgres://ann@h/db https://me:p@abc@h/a@b", "postgres://ann@h/db https://…@h/a@b"),
    ("-H 'Authorization: ApiKey a b' x", "-H 'Authorization: ApiKey …' x"),
    ('-H "Authorization: GenieKey abc" x', '-H "Authorization: GenieKey …" x'),
    ('-H "Authorization: Splunk abc" x', '-H "Authorization: Splunk …" x'),
    ('-H "Authorization: AWS4 a, b=c" x', '-H "Authorization: …" x'),
    ("-H 'Authorization: Digest u=\"me\", r=\"abc\"' x", "-H 'Authorization: Digest …' x"),
    ('-H "Cookie: lang=en; sid=abc" x', '-H "Cookie: …" x'),
    ("Cookie: lang=en; sid=abc", "Cookie: …"),
    ('-H "Authorization: ApiKey $T" x', '-H "Authorization: ApiKey $T" x'),
    ('X_TOKEN="abc"def y', "X_TOKEN=… y"), ('X_TOKEN=abc"d f" y', "X_TOKEN=… y"), (r"X_TOKEN=a\ b y", "X_TOKEN=… y"),
    ("X_TOKEN=${X:-abc} y", "X_TOKEN=… y"), ("X_TOKEN=${oc.env:X} y", "X_TOKEN=${oc.env:X} y"),
    ("X_TOKEN=$(cat f)abc y", "X_TOKEN=… y"), ("X_TOKEN=abc:$T y", "X_TOKEN=… y"),
    ("curl -ume:abc --proxy-user me:abc -u 'me:a b' x", "curl -ume:… --proxy-user me:… -u 'me:…' x"),
    ("docker run --user 1000:1000 -u 0:0 x", "docker run --user 1000:1000 -u 0:0 x"),
    ("luts/key=1/t.csv", "luts/key=1/t.csv"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_commands_lose_their_secrets_alone(text, expected):
    assert mask_secrets(text) == expected


LITERAL = [
    ("A_TOKEN", "$ecret"), ("A_TOKEN", "$2b$10$ecret"), ("A_TOKEN", "${oc.env:A,ecret}"),
    ("A_TOKEN", "x${oc.env:ecret}"), ("A_TOKEN", "…ecret"), ("on_end", "… token=ecret"),
    ("on_end", "--token '$ecret'"), ("on_end", "--token $2b$10$ecret"), ("on_end", "--token ${oc.env:A,ecret} x"),
    ("on_end", "token=ecret ${oc.env:A}"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), LITERAL)
def test_what_only_looks_like_a_reference_is_hidden(name, value):
    assert "ecret" not in mask_value(name, value)
    assert "ecret" not in mask_config({name: ""}, typed={name: value})[name]
    assert "ecret" not in mask_word(f"{name}={value}")


def test_variables_of_the_environment():
    found = environment.variables(
        {"NCCL_AUTH": SECRET, "NCCL_DEBUG": "INFO", "NCCL_X": f"a token={SECRET}", "HOME": "/"}
    )
    assert found == {"NCCL_AUTH": "…", "NCCL_DEBUG": "INFO", "NCCL_X": "a token=…"}


def test_configuration_is_copied_without_secrets():
    env = {"A_PSK": SECRET, "B": "$C", "C_PASS": 12345678, "D_PASS": 1.5, "E_PASS": None, "N": 5}
    config = {"suite": "s", "seed": 3, "backend": {"env": env}, "on_end": f"--token {SECRET}"}
    env = env | {"A_PSK": "…", "B": "${oc.env:B}", "C_PASS": "…", "D_PASS": "…"}
    kept = {"suite": "s", "seed": 3, "backend": {"env": env}, "on_end": "--token …"}
    assert mask_config(config, typed={"backend.env.B": "${oc.env:B}"}) == kept
    assert config["backend"]["env"]["A_PSK"] == SECRET


def test_words_are_filled_in_by_what_they_were_made_from():
    kept = ["seed=1", "A_TOKEN=…", "on_end=echo …", "A_TOKEN=…"]
    typed = ["A_TOKEN=1", "A_TOKEN=2"]
    assert restore_secrets(kept, typed, "--resume s") == ["seed=1", "A_TOKEN=1", "on_end=echo …", "A_TOKEN=2"]
    for given in (typed[:1], [*typed, "B_TOKEN=3"], ["A_TOKEN=1", "B_TOKEN=3"]):
        with pytest.raises(ConfigError, match=r"_TOKEN=…") as told:
            restore_secrets(kept, given, "--resume s")
        assert "\n" not in str(told.value)


def test_words_that_are_kept_in_full_may_be_typed_again():
    kept = ["seed=1", "A_TOKEN=1", "B_TOKEN=…"]
    assert restore_secrets(kept, ["A_TOKEN=1", "B_TOKEN=2"], "--resume s") == ["seed=1", "A_TOKEN=1", "B_TOKEN=2"]
    assert restore_secrets(kept, ["B_TOKEN=2"], "--resume s") == ["seed=1", "A_TOKEN=1", "B_TOKEN=2"]
    with pytest.raises(ConfigError, match="A_TOKEN=…"):
        restore_secrets(kept, ["A_TOKEN=2", "B_TOKEN=2"], "--resume s")


def test_plan_of_a_comparison_is_restored(tmp_path):
    typed = [f"env:A_TOKEN={SECRET} b,B=1", f"set:+backend.env.O_PSK=choice('{SECRET}','b'),seeds=3", "plain"]
    words = ["+suite=allreduce", f"+backend.env.C_KEY={SECRET}"]
    made = command.new_plan(command.parse([*typed, *words]), tmp_path)
    assert made.arms[0].environment == {"A_TOKEN": f"{SECRET} b", "B": "1"}
    assert [arm.text for arm in made.arms] == ["env:A_TOKEN=…,B=1", "set:+backend.env.O_PSK=…,seeds=3", "plain"]
    command.write_plan(made, tmp_path)
    assert SECRET not in (tmp_path / command.FILE_NAME).read_text()
    secrets = [*typed[:2], words[1]]
    assert command.parse(["--resume", str(tmp_path), *secrets]) == command.ResumedComparison(tmp_path, secrets)
    assert command.read_plan(tmp_path, secrets) == made
    assert command.read_plan(tmp_path, secrets).digest() == made.digest()
    for missing in range(3):
        with pytest.raises(ConfigError, match=r"=…"):
            command.read_plan(tmp_path, secrets[:missing] + secrets[missing + 1 :])
    assert arms.mask_arm("git:v1") == "git:v1"


@pytest.mark.parametrize("form", ["env:A_TOKEN={}", "set:+backend.env.A_TOKEN={}", "set:on_end='curl -u me:{} x'"])
def test_arms_that_differ_by_a_secret_alone_are_refused(form):
    """Nothing would say which of them a result is of."""
    with pytest.raises(ConfigError, match="…") as told:
        command.parse([form.format("x"), "plain", form.format("z"), "+suite=allreduce"])
    assert "\n" not in str(told.value)
    assert command.parse([form.format("x"), form.format("x"), "+suite=allreduce"])
