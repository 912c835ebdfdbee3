"""Shapes, heads and message sizes that suites take from a model."""

import pytest
from benchkit.api.groups import ModelConfig
from benchkit.api.parameters import LAYERS, layer_parameters, layer_shape
from benchkit.cli import check
from benchkit.config import compose as composition
from hydra import compose, initialize_config_dir

from tests.support.cli import ROOT

XL = ModelConfig("xl", d_model=1600, d_ff=6400, num_layers=48, num_heads=25, vocab_size=10000)


def typed(*overrides):
    composition.register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return composition.typed(compose("config", [*overrides]))


def test_products_of_a_layer_have_its_weights():
    rows, columns = zip(*(layer_shape(XL, layer) for layer in LAYERS if layer != "head"), strict=True)
    weights = sum(row * column for row, column in zip(rows, columns, strict=True))
    gate, norms = XL.d_model * XL.d_ff, 2 * XL.d_model
    assert weights + gate + norms == layer_parameters(XL)


@pytest.mark.parametrize(
    ("layer", "k", "n"), [("attn_qkv", 1600, 4800), ("ffn_down", 6400, 1600), ("head", 1600, 10000)]
)
def test_product_has_the_shape_of_a_layer(layer, k, n):
    config = typed("+suite=tp_rowwise", "model=xl", f"layer={layer}", "m=512")
    assert (config.m, config.k, config.n) == (512, k, n)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_rank_of_a_column_parallel_layer_has_a_part_of_its_columns(ranks):
    config = typed("+suite=tp_columnwise", "model=xl", "layer=ffn_up", f"world_size={ranks}")
    assert (config.k, config.n * ranks) == (1600, 6400)


def test_ring_has_the_heads_of_a_model():
    config = typed("+suite=ring_attention", "model=xl")
    assert (config.num_heads, config.head_dim) == (25, 64)
    assert typed("+suite=ring_attention").num_heads == 8


def test_message_has_the_size_of_a_models_traffic():
    def size(*overrides):
        return typed("+suite=collective", "model=xl", "dtype=bfloat16", *overrides).data_size

    assert size("data_size=tensor:2048") == 2048 * 1600 * 2 / 2**20
    assert size("data_size=sequence:2048") == 2 * 2048 * 1600 * 2 / 2**20
    assert size("data_size=[sequence:1,4B]") == [2 * 1600 * 2 / 2**20, 4 / 2**20]
    assert size("data_size=gradients") == typed("+suite=allreduce", "model=xl", "dtype=bfloat16").data_size


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("+suite=tp_rowwise model=xl", "model=xl: choose layer=attn_qkv|attn_out|ffn_up|ffn_down|head"),
        ("+suite=tp_rowwise layer=ffn_up", "layer=ffn_up: needs a model"),
        ("+suite=tp_rowwise layer=up model=xl", "layer=up: allowed is attn_qkv|"),
        ("+suite=tp_rowwise layer=ffn_up model=xl n=5", "n=5: layer=ffn_up of model=xl has n=6400"),
        ("+suite=tp_columnwise layer=ffn_up model=xl", "world_size=auto: layer=ffn_up of model=xl shares its columns"),
        ("+suite=tp_columnwise layer=ffn_up model=xl world_size=3", "world_size=3: layer=ffn_up of model=xl has 6400"),
        ("+suite=ring_attention model=xl num_heads=3", "num_heads=3: model=xl has num_heads=25"),
        ("+suite=ring_attention model=xl model.num_heads=7", "model.num_heads=7: allowed are numbers that divide"),
        ("+suite=compile workload=mlp model=tiny width=5", "width=5: model=tiny has d_model=64; leave one of both"),
        ("+suite=matmul_lut model=xl", "model=xl: suite matmul_lut uses no model"),
        (
            "+suite=collective model=xl",
            "data_size=1: says nothing of model=xl; choose data_size=gradients|tensor:TOKENS",
        ),
        ("+suite=allreduce model=xl data_size=3", "data_size=3: says nothing of model=xl"),
        ("+suite=collective data_size=tensor:8", "data_size=tensor:8: needs a model"),
        ("+suite=collective model=xl data_size=tensor", "data_size=tensor: allowed of a model are gradients, tensor:T"),
    ],
)
def test_contradiction_is_refused_in_one_line(arguments, complaint):
    said = check(arguments.split())
    assert said.startswith(complaint)
    assert "\n" not in said
