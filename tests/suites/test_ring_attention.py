"""Ring attention: its parts by arithmetic, and the whole on real ranks against float64."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import yaml
from benchkit.errors import ConfigError, InvalidResult
from benchkit.suites.ring_attention import cases, ring, splits
from benchkit.suites.ring_attention import planner as probes
from benchkit.suites.ring_attention import planner as rebalance
from benchkit.suites.ring_attention.cases import RingCase, RingJob
from benchkit.suites.ring_attention.planner import Online, RingPlanner, fit_cost
from benchkit.suites.ring_attention.reference import ExactLayer, attend_rows, unseen_keys
from benchkit.suites.ring_attention.ring import AttentionLayer, Block, Ring, attend, blocks, merge
from benchkit.suites.ring_attention.splits import CostModel, Split
from benchkit.suites.ring_attention.suite import STRATEGIES, read_table

from tests.support import fakes
from tests.support.cli import ROOT, Cli

CPU = torch.device("cpu")


def layer(seq_len, dtype=torch.float32):
    return AttentionLayer.random(seq_len, 2, 8, dtype=dtype, device=CPU, seed=3)


def tokens(seq_len, dtype=torch.float32):
    return torch.randn(seq_len, 16, generator=torch.Generator().manual_seed(1)).to(dtype)


def test_blocks_exclude_hidden_pairs():
    zigzag = ((0, 10), (90, 100))
    assert blocks(((20, 30),), ((0, 20),), True) == [Block((0, 10), (0, 20), False)]
    assert blocks(((0, 20),), ((20, 30),), True) == []
    assert blocks(((0, 20),), ((20, 30),), False) == [Block((0, 20), (0, 10), False)]
    assert blocks(zigzag, zigzag, True) == [Block((0, 20), (0, 20), True)]
    assert blocks(((10, 50), (50, 90)), zigzag, True) == [Block((0, 80), (0, 10), False)]
    assert blocks(zigzag, ((10, 50), (50, 90)), True) == [Block((10, 20), (0, 80), False)]
    assert blocks(((0, 0),), ((0, 10),), False) == blocks(((0, 10),), ((5, 5),), False) == []


@pytest.mark.parametrize("causal", [True, False])
def test_blocks_cover_visible_pairs_once(causal):
    split = splits.zigzag(37, [1.0, 0.4, 0.8])
    seen = torch.zeros(37, 37, dtype=torch.int)
    for mine in split.pieces:
        rows = [p for start, end in mine for p in range(start, end)]
        for theirs in split.pieces:
            columns = [p for start, end in theirs for p in range(start, end)]
            for block in blocks(mine, theirs, causal):
                for i, row in enumerate(rows[slice(*block.queries)]):
                    for j, column in enumerate(columns[slice(*block.keys)]):
                        seen[row, column] += not block.causal or j <= i
    expected = torch.ones(37, 37, dtype=torch.int)
    assert torch.equal(seen, expected.tril() if causal else expected)


def test_partial_attentions_merge_in_any_order():
    query, key, value = (torch.randn(1, 2, length, 8, dtype=torch.float64) for length in (5, 12, 12))
    whole = attend(query, key, value, False)
    parts = [attend(query, key[:, :, a:b], value[:, :, a:b], False) for a, b in ((7, 12), (0, 3), (3, 7))]
    into = tuple(part.clone() for part in parts[0])
    for part in parts[1:]:
        merge(into, part)
    torch.testing.assert_close(into, whole)


@pytest.mark.parametrize("causal", [True, False])
def test_exact_attention_matches_torch(causal):
    made, x = layer(20, torch.float64), tokens(20, torch.float64)
    query, key_value = made.project(x, torch.arange(20))
    heads = [part.transpose(0, 1).unsqueeze(0) for part in (query, key_value[:, 0], key_value[:, 1])]
    attended = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=causal)
    rows = ExactLayer(made, x, causal).rows(torch.arange(20), torch.ones(20))
    torch.testing.assert_close(rows, made.finish(attended))


def test_rotations_depend_on_distance_only():
    made = layer(50, torch.float64)
    x = tokens(1, torch.float64).expand(2, -1)

    def score(first, second):
        query, key_value = made.project(x, torch.tensor([first, second]))
        return (query[0] * key_value[1, 0]).sum().item()

    assert score(3, 9) == pytest.approx(score(33, 39))
    assert score(3, 9) != pytest.approx(score(3, 10))


@pytest.mark.parametrize(
    ("dtype", "limit", "causal"),
    [(torch.float64, 1e-12, False), (torch.float32, 1e-5, True), (torch.bfloat16, 0.1, True)],
)
def test_single_rank_ring_matches_exact(dtype, limit, causal):
    made, x = layer(70, dtype), tokens(70, dtype)
    output = Ring(made, x, splits.even(70, [1.0]), 0, causal).step()
    expected = ExactLayer(made, x, causal).rows(torch.arange(70), torch.ones(70))
    assert (output - expected).abs().max() < limit * expected.abs().max()


def test_keys_travel_no_further_than_needed():
    made, x = layer(40), tokens(40)
    contiguous = Ring(made, x, splits.even(40, [1.0] * 4), 1, True)
    assert contiguous.reach == [3, 2, 1, 0]  # the last rank's keys are seen by nobody before it
    assert Ring(made, x, splits.even(40, [1.0] * 4), 1, False).reach == [3, 3, 3, 3]
    idle = Split("balanced", (((0, 30),), ((30, 30),), ((30, 40),), ((40, 40),)))
    assert Ring(made, x, idle, 1, True).reach == [2, 0, 0, 0]  # an idle rank passes on, and the last gets nothing


def shared(causal=True, dtype=torch.float32, table=None, slowdown=(1.0,)):
    made, x = layer(64, dtype), tokens(64, dtype)
    planner = RingPlanner(
        64,
        4,
        [100 / factor for factor in slowdown],
        table or {},
        CostModel(causal=causal),
        [1 / factor for factor in slowdown],
    )
    return RingJob(0, made, x, causal, planner, ExactLayer(made, x, causal))


def test_torch_shards_ignore_alignment(monkeypatch):
    monkeypatch.setattr(cases, "TorchRing", lambda layer, x, split, rank, causal: split)
    for causal in (True, False):
        made = shared(causal, slowdown=(1.0, 3.0))
        uneven_by_align = replace(made, x=tokens(1000), planner=replace(made.planner, seq_len=1000, align=64))
        assert RingCase(uneven_by_align, "torch")._split.tokens == [500, 500]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_verify_rejects_single_wrong_key(dtype, monkeypatch):
    running = RingCase(shared(dtype=dtype), "even")
    fakes.verify(running)

    def one_off(query, key, value, causal):
        value = value.clone()
        value[:, :, 0] *= -1
        return attend(query, key, value, causal)

    monkeypatch.setattr(ring, "attend", one_off)
    with pytest.raises(InvalidResult, match="token 0"):
        fakes.verify(running)


def test_obstacle_explains_unusable_strategy(golden):
    assert [name for name in STRATEGIES if shared().obstacle(name)] == ["lut"]
    assert shared(table={100.0: 1.0}).obstacle("lut") == ""
    uneven = shared(slowdown=(1.0, 1.0, 2.0))
    golden("\n".join([shared().obstacle("lut"), shared(causal=False).obstacle("zigzag"), uneven.obstacle("torch")]))


@pytest.mark.parametrize("changed", ["_templated_ring_attention", "_cp_options"])
def test_changed_torch_api_skips_torch_ring(changed, monkeypatch):
    from torch.distributed.tensor.experimental._context_parallel import _attention

    assert cases.torch_ring_missing(64, 2, torch.float32) == ""
    monkeypatch.setattr(_attention, changed, lambda mesh, op, query, key, value, is_causal=False, **kwargs: None)
    why = cases.torch_ring_missing(64, 2, torch.float32)
    assert why
    assert "\n" not in why


def test_every_strategy_has_its_split():
    planner = RingPlanner(1024, 32, (100.0, 25.0), {25.0: 1.0, 100.0: 3.0}, CostModel(), [1.0, 0.25])
    found = {name: planner.split(name).tokens for name in ("even", "uneven", "lut", "formula", "balanced", "zigzag")}
    assert found["even"] == planner.split("online").tokens == planner.split("reference").tokens == [512, 512]
    assert found["uneven"] == [832, 192]
    assert found["lut"] == [768, 256]
    assert found["balanced"][0] == pytest.approx(1024 * math.sqrt(4 / 5), abs=32)
    assert found["zigzag"] == [832, 192]
    assert sum(found["formula"]) == 1024
    assert planner.step_s(planner.split("balanced")) == pytest.approx(planner.ideal_s(), rel=0.05)
    assert planner.at_full_speed().split("zigzag").tokens == [512, 512]


def test_probes_yield_costs_and_speeds(monkeypatch):
    three = SimpleNamespace(get_rank=lambda: 0, get_world_size=lambda: 3)
    for module in (rebalance, probes):
        monkeypatch.setattr(module, "dist", three)

    def seconds_of(*calls, **turns):
        assert len(calls) == 3
        return [[1.0, 1.04, 2.0], [0.1, 0.1, 0.2], [0.01, 0.03, 0.02]]

    cost, speeds = fit_cost(layer(64), tokens(64), True, seconds_of)
    assert speeds == [1.0, 1.0, 0.5]  # 4 % are noise
    assert cost.pair_s == pytest.approx(0.1 / (32 * 32))  # of the fastest rank
    assert cost.token_s == pytest.approx((1.0 - cost.pair_s * 64 * 65 / 2) / 64)
    assert cost.pass_s == pytest.approx(0.03 / 21)  # of the slowest, a third of the tokens


@pytest.mark.parametrize("speeds", [[1.0, 1.0], [1.0, 0.1], [0.5, 1.0, 0.25], [1.0, 1e-4]])
def test_online_split_converges_to_balance(speeds):
    cost = CostModel(pair_s=1e-9, token_s=1e-7)
    planner = RingPlanner(4096, 32, [100.0] * len(speeds), {}, cost, [1.0] * len(speeds))
    online = Online(planner, CPU)
    moves = [online.follow(splits.predict(online.current, speeds, cost)) for _ in range(12)]
    assert max(splits.predict(online.current, speeds, cost)) <= 1.06 * splits.ideal_s(4096, speeds, cost)
    assert not any(moves[-6:])
    assert online.current.strategy == "online"


def test_online_split_ignores_noise():
    cost = CostModel(pair_s=1e-9)
    online = Online(RingPlanner(4096, 32, (100.0, 100.0), {}, cost, [1.0, 1.0]), CPU)
    online.follow(splits.predict(online.current, [1.0, 1.0], cost))
    for sign in (1, -1) * 5:
        exact = splits.predict(online.current, [1.0, 1.0], cost)
        assert not online.follow([exact[0] * (1 + 0.02 * sign), exact[1]])


MATMULS = """# device: a
mps_pct,size,dtype,bg_streams,avg_ms,tflops
100,1024,float32,0,1,8
50,1024,float32,0,2,5
100,4096,float32,0,1,10
50,4096,float32,0,2,4
100,4096,bfloat16,0,1,20
50,4096,bfloat16,2,2,1
"""


def test_read_table_picks_nearest_size(tmp_path):
    path = tmp_path / "lut.csv"
    path.write_text(MATMULS)
    assert read_table(str(path), 3000, "float32").performance == {100.0: 10.0, 50.0: 4.0}
    assert read_table(str(path), 1, "float32").performance == {100.0: 8.0, 50.0: 5.0}
    assert read_table(str(path), 3000, "bfloat16").performance == {100.0: 20.0}  # without background streams
    path.write_text("mps_pct,latency_ms\n100,2\n50,5\n")
    assert read_table(str(path), 3000, "float32").performance == {100.0: 0.5, 50.0: 0.2}


DOUBTED = [
    ("", 1024, 4, 0), ("# threads per rank: 1\n", 4096, 1, 0), ("# threads per rank: 1\n", 4096, None, 0),
    ("# threads per rank: 1.0\n", 4096, 2, 1), ("# threads per rank: 1, 2\n", 4096, 2, 1),
    ("# threads per rank: none\n", 4097, 2, 1), ("", 1000, 2, 1),
]  # fmt: skip
"""A comment of the table, tokens, threads per rank, and how many doubts there are."""


def test_table_doubts_name_mismatch(tmp_path, golden):
    path, told = tmp_path / "lut.csv", []
    for comment, seq_len, threads, number in DOUBTED:
        path.write_text(comment + MATMULS)
        doubts = read_table(str(path), seq_len, "float32").doubts([100, 50], threads)
        assert len(doubts) == number, (comment, seq_len, threads)
        told += doubts
    path.write_text("mps_pct,latency_ms\n100,2\n33.333,5\n")
    table = read_table(str(path), 1024, "float32")
    assert table.doubts([100, 100 / 3], 7) == []
    golden("\n".join([*told, *table.doubts([100, 25])]))


def test_lut_sweep_covers_rebalance_sweep():
    conf = ROOT / "conf" / "sweep"
    table, sweep = (yaml.safe_load((conf / f"{name}.yaml").read_text()) for name in ("rebalance_lut", "rebalance"))
    assert (table["dtype"], table["threads_per_rank"]) == (sweep["dtype"], 1)
    looked_up, measured = (each["hydra"]["sweeper"]["params"] for each in (sweep, table))
    assert table["sizes"] == [int(length) for length in looked_up["seq_len"].split(",")]
    assert measured["hardware.slowdown"] == looked_up["hardware.slowdown"]


UNREADABLE = {
    "a share of 0": "mps_pct,latency_ms\n50,5\n0,2\n", "a time that is none": "mps_pct,latency_ms\n50,5\n100,nan\n",
    "an endless size": MATMULS + "20,inf,float32,0,2,4\n", "a rate below 0": MATMULS + "20,4096,float32,0,2,-2\n",
    "no number": MATMULS + "x,4096,float32,0,2,4\n", "nothing": "", "no table of shares": "a,b\n1,2\n",
    "no time": "mps_pct,size\n100,1\n", "no such dtype": MATMULS.replace("bfloat16,0", "bfloat16,2"),
    "background streams throughout": MATMULS.replace(",0,", ",2,"),
}  # fmt: skip


def test_read_table_refuses_what_is_no_table(tmp_path, golden):
    path, said = tmp_path / "lut.csv", {}
    for name, text in UNREADABLE.items():
        path.write_text(text)
        with pytest.raises(ConfigError) as refusal:
            read_table(str(path), 4096, "bfloat16" if name == "no such dtype" else "float32")
        said[name] = str(refusal.value)
    golden("\n".join(f"{name}: {text}" for name, text in said.items()))
    with pytest.raises(ConfigError, match="lut="):
        read_table(str(tmp_path / "none.csv"), 1, "float32")


@pytest.mark.slow
def test_strategies_pass_on_any_length(cli: Cli):
    table = cli.folder / "lut.csv"
    table.write_text(MATMULS)
    done = cli(
        "+suite=ring_attention", "causal=true,false", "align=1", "num_heads=2", "head_dim=8", f"lut={table}",
        "hardware.slowdown=1", "measure=few", "threads_per_rank=1", "seq_len=384,331", "dtype=bfloat16", "world_size=3",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    records = cli.records()
    assert len(records) == 4
    for record in records:
        assert len(record["warnings"]) == 1  # the look-up table does not reach this length
        statuses = {case["labels"]["strategy"]: case["status"] for case in record["cases"]}
        config = record["config"]
        cannot = config["dtype"] == "float64" or config["seq_len"] % (2 * record["world_size"])
        unable = {"torch"} if cannot else set()
        unable |= {"zigzag"} if not config["causal"] else set()
        assert statuses == {name: "skipped" if name in unable else "ok" for name in STRATEGIES}
        for case in record["cases"]:
            if case["status"] == "ok":
                is_even = case["labels"]["strategy"] == "even"
                assert case["baseline"] == (None if is_even else STRATEGIES.index("even"))
                assert sum(case["details"]["tokens"]) == record["config"]["seq_len"]
                assert len(case["regions_s"]["compute_block"]) == record["world_size"]
                assert ("comm_wait" in case["regions_s"]) == (case["labels"]["strategy"] != "torch")


@pytest.mark.slow
def test_lost_keys_invalidate_split(cli: Cli):
    cli.environment["BENCHKIT_SUITES"] = "tests.support.broken"
    given = ["+suite=ring_attention", "strategies=[even,uneven,zigzag]", "seq_len=256", "fault=lost"]
    done = cli(*given, "measure=few", "num_heads=2", "head_dim=8")
    assert done.returncode == 1, done.stdout + done.stderr
    for record in cli.records():
        assert [case["status"] for case in record["cases"]] == ["invalid"] * 3, record["overrides"]


@pytest.mark.parametrize("ranks", [16, 256])
def test_keys_of_one_rank_change_a_row_by_what_is_said(ranks):
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 4, 4096, 32, dtype=torch.float64, generator=generator) for _ in range(3))
    others = slice(4096 // ranks, None)
    whole = attend_rows(query[:, :, :32], key, value, None)
    without = attend_rows(query[:, :, :32], key[:, :, others], value[:, :, others], None)
    off = (without - whole).abs().amax(-1) / whole.abs().amax(-1)
    assert off.median().item() == pytest.approx(ranks**-0.5, rel=0.5)


@pytest.mark.parametrize(
    ("ranks", "dtype", "layers", "is_said"),
    [
        (1, torch.bfloat16, 1, False), (24, torch.bfloat16, 1, False), (32, torch.bfloat16, 1, True),
        (4, torch.bfloat16, 12, True), (1024, torch.float16, 1, False), (4096, torch.float16, 1, True),
        (4096, torch.float32, 32, False),
    ],
)  # fmt: skip
def test_keys_that_a_tolerance_hides_are_named(ranks, dtype, layers, is_said):
    assert bool(unseen_keys(ranks, dtype, layers)) == is_said
