"""The whole decoder over split sequences: its parts on one process, against the dense model in float64."""

from dataclasses import replace

import pandas as pd
import pytest
import torch
from analysis.suites.ring_attention import model_table
from benchkit.api.groups import ModelConfig
from benchkit.cli import check
from benchkit.errors import InvalidResult
from benchkit.suites.ring_attention import dense
from benchkit.suites.ring_attention.cases import NO_TABLE
from benchkit.suites.ring_attention.decode import Decode, attended, owners_of_new
from benchkit.suites.ring_attention.decoder import Decoder
from benchkit.suites.ring_attention.model_cases import DecodeCase, ModelJob, PrefillCase, compare
from benchkit.suites.ring_attention.model_suite import case_of
from benchkit.suites.ring_attention.planner import Planner
from benchkit.suites.ring_attention.splits import CostModel, Split

from tests.support import fakes
from tests.support.cli import Cli

MODEL = ModelConfig(name="least", d_model=16, d_ff=24, num_layers=2, num_heads=2, vocab_size=50)
PROMPT, NEW = 37, 4
CPU = torch.device("cpu")


def job(dtype=torch.float32):
    decoder = Decoder.random(MODEL, PROMPT + NEW, dtype=dtype, device=CPU, seed=5)
    return ModelJob(0, 1, decoder, Planner(PROMPT, 1, [100.0], {}, CostModel(), [1.0]), NEW, seed=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_prefill_on_one_rank_matches_dense_model(dtype):
    case = PrefillCase(job(dtype), "ring", "even")
    case.step()
    fakes.verify(case)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_decode_on_one_rank_matches_dense_model(dtype):
    case = DecodeCase(job(dtype), "single", "whole")
    case.step()
    case.step()  # from the prompt's cache again
    fakes.verify(case)


def test_decode_attends_over_new_tokens(monkeypatch):
    case = DecodeCase(job(), "single", "whole")
    monkeypatch.setattr(
        "benchkit.suites.ring_attention.decode.attended", lambda query, cache: attended(query, cache[:PROMPT])
    )
    with pytest.raises(InvalidResult, match=f"logits after token {PROMPT} is off"):
        fakes.verify(case)


def test_parts_of_the_cache_merge_to_the_whole(monkeypatch):
    """One part is empty, as on a rank that a split leaves idle."""
    query = torch.randn(1, 2, 1, 8, dtype=torch.float64)
    cache = torch.randn(11, 2, 2, 8, dtype=torch.float64)
    parts = [attended(query, part) for part in (cache[:4], cache[:0], cache[4:])]

    def all_gather(found, own):
        for into, part in zip(found, parts, strict=True):
            into.copy_(part)

    monkeypatch.setattr("torch.distributed.all_gather", all_gather)
    decode = Decode(job().decoder, torch.arange(6), [], [1, 1, 2], 0)
    torch.testing.assert_close(decode._merged(parts[0])[:, :-1], attended(query, cache)[:, :-1])


def test_lut_split_follows_its_table():
    own = job()
    assert case_of(own, ("prefill", "ring", "lut"), None).skip == NO_TABLE
    own.planner = replace(own.planner, shares=[100.0, 50.0], table={100.0: 3.0, 50.0: 1.0})
    assert own.split("ring", "lut").tokens == [28, 9]
    assert check(["+suite=ring_model", "strategies=[lut]", "lut=none.csv"]).startswith("lut=none.csv: ")


def test_new_tokens_keep_proportions():
    owners = owners_of_new([60, 0, 20, 20], 10)
    assert [owners.count(rank) for rank in range(4)] == [6, 0, 2, 2]


def test_dense_model_sees_no_later_tokens():
    own = job(torch.float64)
    ids = own.ids(1)
    whole = dense.hidden_states(own.decoder, ids)
    torch.testing.assert_close(dense.hidden_states(own.decoder, ids[:9]), whole[:9])
    changed = ids.clone()
    changed[0] = (ids[0] + 1) % MODEL.vocab_size
    assert not torch.allclose(dense.hidden_states(own.decoder, changed)[-1], whole[-1])


def test_every_part_of_a_layer_matters(monkeypatch):
    """A decoder that leaves out its feed-forward layers differs from the dense one by more than rounding."""
    case = PrefillCase(job(), "ring", "even")
    case._job.expected(1)  # of the whole model
    monkeypatch.setattr("benchkit.suites.ring_attention.decoder.DecoderLayer.feed_forward", lambda layer, x: x)
    with pytest.raises(InvalidResult, match="hidden state of token 0 is off"):
        fakes.verify(case)


def test_compare_names_first_wrong_row():
    right = torch.ones(3, 4, dtype=torch.float64)
    found = right.float()
    compare(found, right, "logits after token", [7, 8, 9])
    found[1, 2] = float("nan")
    with pytest.raises(InvalidResult, match="logits after token 8 is off by nan"):
        compare(found, right, "logits after token", [7, 8, 9])


def test_single_rank_leaves_others_idle():
    own = job()
    own.rank, own.world_size = 1, 2
    case = PrefillCase(own, "single", "whole")
    case.step()
    fakes.verify(case)
    assert case.details()["tokens"] == [PROMPT, 0]


def test_last_position_has_one_owner():
    assert Split("zigzag", (((0, 4), (16, 20)), ((4, 10), (10, 16)))).last_owner == 0
    assert Split("balanced", (((0, 30),), ((30, 40),), ((40, 40),))).last_owner == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("model=null", "a group cannot be null here; choose one of its options"),
        ("model=tiny model.num_heads=3", "model.num_heads=3: allowed are numbers that divide model.d_model=64"),
        ("model=tiny seq_len=1 world_size=2", "seq_len=1: allowed is at least a token for each of world_size=2"),
        ("model=tiny decode_tokens=0", "decode_tokens=0: allowed"),
        ("model=tiny strategies=[torch]", "strategies"),
        ("model=tiny dtype=float16", "dtype=float16: allowed on a cpu are"),
        ("model=tiny hardware=cuda model.num_heads=16", "model.num_heads=16, head_dim=4: allowed on a GPU"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, complaint):
    said = check(["+suite=ring_model", "dtype=bfloat16", *arguments.split()])
    assert said.startswith(complaint)
    assert "\n" not in said


@pytest.mark.slow
def test_ranks_agree_with_dense_model(cli: Cli):
    given = ["model=tiny", "model.vocab_size=50", "seq_len=100", "align=8", "decode_tokens=3", "dtype=float64"]
    done = cli("+suite=ring_model", *given, "world_size=3", "measure=few")
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert {case["status"] for case in record["cases"]} == {"ok"}
    assert len(record["cases"]) == 9 + 5


def test_table_has_time_per_token_and_speedups():
    table = pd.DataFrame(
        {"suite": "ring_model", "status": "ok", "phase": phase, "implementation": how, "strategy": split, "seq_len": 64,
         "slowdown": "2", "decode_tokens": 4, "median_s": seconds, "tokens_per_second": 1.0, "tokens": "[32, 32]",
         "paired_speedup": None}
        for phase in ("prefill", "decode")
        for how, split, seconds in (("ring", "even", 0.4), ("single", "whole", 0.2))
    )  # fmt: skip
    rows = table.assign(over_single=model_table.over_single(table))
    assert list(rows.over_single) == [0.5, 1.0, 0.5, 1.0]
    prefill = model_table.section(rows[rows.phase == "prefill"], "prefill")
    decode = model_table.section(rows[rows.phase == "decode"], "decode")
    assert list(prefill["time to first token [ms]"]) == [400, 200]
    assert list(decode["time per token [ms]"]) == [100, 50]
    assert prefill["speedup over even ring"].iloc[0] == 1
