"""The whole decoder over split sequences: its parts on one process, against the dense model in float64."""

from dataclasses import replace

import pytest
import torch
from benchkit.api.keys import ModelConfig
from benchkit.errors import InvalidResult
from benchkit.suites.ring_attention.cases import NO_TABLE
from benchkit.suites.ring_attention.planner import RingPlanner
from benchkit.suites.ring_attention.reference import compare
from benchkit.suites.ring_attention.splits import CostModel, Split
from benchkit.suites.ring_model import decoder, reference
from benchkit.suites.ring_model.cases import DecodeCase, ModelJob, PrefillCase, case_of
from benchkit.suites.ring_model.decoder import Decode, Decoder, attended, owners_of_new

from tests.support import fakes
from tests.support.cli import Cli
from tests.support.records import make_record, tabulate_records
from tests.support.reports import texts_of

MODEL = ModelConfig(name="least", d_model=16, d_ff=24, num_layers=2, num_heads=2, vocab_size=50)
PROMPT, NEW = 37, 4
CPU = torch.device("cpu")


def job(dtype=torch.float32):
    made = Decoder.random(MODEL, PROMPT + NEW, dtype=dtype, device=CPU, seed=5)
    return ModelJob(0, 1, made, RingPlanner(PROMPT, 1, [100.0], {}, CostModel(), [1.0]), NEW, seed=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_prefill_on_one_rank_matches_dense_model(dtype):
    case = PrefillCase(job(dtype), "ring", "even")
    case.step()
    fakes.verify(case)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_decode_on_one_rank_matches_dense_model(dtype):
    case = DecodeCase(job(dtype), "single", "whole")
    case.step()
    case.step()  # from the prompt's cache again
    fakes.verify(case)


def test_decode_attends_over_new_tokens(monkeypatch):
    case = DecodeCase(job(), "single", "whole")
    monkeypatch.setattr(decoder, "attended", lambda query, cache: attended(query, cache[:PROMPT]))
    with pytest.raises(InvalidResult, match=f"token {PROMPT}"):
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
    whole = Decode(job().decoder, torch.arange(6), [], [1, 1, 2], 0)._merge(parts[0])
    torch.testing.assert_close(whole[:, :-1], attended(query, cache)[:, :-1])


def test_lut_split_follows_its_table():
    own = job()
    assert case_of(own, ("prefill", "ring", "lut"), None).skip == NO_TABLE
    own.planner = replace(own.planner, shares=[100.0, 50.0], table={100.0: 3.0, 50.0: 1.0})
    assert own.split("ring", "lut").tokens == [28, 9]


def test_new_tokens_keep_proportions():
    owners = owners_of_new([60, 0, 20, 20], 10)
    assert [owners.count(rank) for rank in range(4)] == [6, 0, 2, 2]


def test_dense_model_sees_no_later_tokens():
    own = job(torch.float64)
    ids = own.ids(1)
    whole = reference.hidden_states(own.decoder, ids)
    torch.testing.assert_close(reference.hidden_states(own.decoder, ids[:9]), whole[:9])
    changed = ids.clone()
    changed[0] = (ids[0] + 1) % MODEL.vocab_size
    assert not torch.allclose(reference.hidden_states(own.decoder, changed)[-1], whole[-1])


def test_every_part_of_a_layer_matters(monkeypatch):
    """A decoder that leaves out its feed-forward layers differs from the dense one by more than rounding."""
    case = PrefillCase(job(), "ring", "even")
    case._job.expected(1)  # of the whole model
    monkeypatch.setattr(decoder.DecoderLayer, "feed_forward", lambda layer, x: x)
    with pytest.raises(InvalidResult, match="token 0"):
        fakes.verify(case)


def test_compare_names_first_wrong_row():
    right = torch.ones(3, 4, dtype=torch.float64)
    found = right.float()
    compare(found, right, "logits after token", [7, 8, 9])
    found[1, 2] = float("nan")
    with pytest.raises(InvalidResult, match="token 8"):
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


@pytest.mark.slow
def test_ranks_agree_with_dense_model(cli: Cli):
    given = ["model=tiny", "model.vocab_size=50", "seq_len=100", "align=8", "decode_tokens=3", "dtype=float64"]
    done = cli("+suite=ring_model", *given, "world_size=3", "measure=few")
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert {case["status"] for case in record["cases"]} == {"ok"}
    assert len(record["cases"]) == 9 + 5


def test_table_has_time_per_token_and_speedups():
    made = make_record(suite="ring_model", title="ring_model")
    [base] = made["cases"]
    del made["config"]["data_size"]
    made["config"] |= {"suite": "ring_model", "seq_len": 64, "decode_tokens": 4}
    made["config"]["hardware"]["slowdown"] = 2
    made["cases"] = [
        base | {
            "labels": {"phase": phase, "implementation": how, "strategy": split}, "payload_bytes": None,
            "bus_factor": None, "details": {"tokens": [32, 32]}, "baseline": baseline,
            "samples_s": [[seconds / 1e-3 * each for each in row] for row in base["samples_s"]],
        }
        for first, phase in ((0, "prefill"), (2, "decode"))
        for baseline, how, split, seconds in ((None, "ring", "even", 0.4), (first, "single", "whole", 0.2))
    ]  # fmt: skip
    [text] = [text for name, text in texts_of(tabulate_records([made])).items() if name.endswith(".md")]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    heads = [line for line in lines if any(cell.endswith("[ms]") for cell in line)]
    shown = [[dict(zip(head, row, strict=True)) for row in lines[lines.index(head) + 2 :][:2]] for head in heads]
    times = [[row[name] for row in rows for name in row if name.endswith("[ms]")] for rows in shown]
    assert sorted(times) == [["100", "50"], ["400", "200"]]  # per token, and to the first token
    assert all("0.5" in rows[0].values() for rows in shown)  # over the single rank
