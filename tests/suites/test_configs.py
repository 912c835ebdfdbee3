"""What suites refuse and accept, and the shapes, heads and message sizes that they take from a model."""

from functools import cache

import pytest
from benchkit.api.keys import LAYERS, ModelConfig, layer_parameters, layer_shape
from benchkit.config import compose as composition
from benchkit.errors import ConfigError
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tests.support.cli import ROOT

REFUSED = {
    "collective": [
        "collective=all_sum", "collective=broadcast reduce_op=max", "collective=broadcast ragged=true",
        "collective=send_recv world_size=1", "collective=send_recv async_op=true", "dtype=int32 reduce_op=avg",
        "data_size=4TB", "data_size=[]", "data_size=[1,2KiB,1024KiB]", "data_size=[1,[2]]",
        "data_size=[1,2] collective=barrier", "data_size=[1,2] timeout_s=43", "model=xl", "data_size=tensor:8",
        "model=xl data_size=tensor",
    ],
    "tp_rowwise": ["model=xl", "layer=ffn_up", "layer=ffn_up model=xl n=5"],
    "tp_columnwise": [
        "dtype=float8_e4m3fn k=100", "layer=ffn_up model=xl",
        "layer=ffn_up model=xl world_size=3",
    ],
    "ring_attention": [
        "hardware.slowdown=0.5", "hardware.slowdown=[1,2,3] world_size=2", "hardware.slowdown=[1,x]",
        "hardware.slow_by=mps", "dtype=float64 hardware=cuda", "head_dim=7", "head_dim=6 hardware=cuda",
        "head_dim=264 dtype=float16 hardware=cuda", "strategies=[even,best]", "lut=nowhere.csv", "model=xl num_heads=3",
    ],
    "ring_model": [
        "model=tiny seq_len=1 world_size=2", "model=tiny decode_tokens=0",
        "model=tiny hardware=cuda model.num_heads=16 dtype=bfloat16", "model=tiny strategies=[lut] lut=none.csv",
    ],
    "transformer": [
        "model=tiny model.num_heads=3", "model=tiny model.d_model=12 model.num_heads=4", "model=tiny dtype=tf32",
        "model=tiny parallel=ddp", "model=tiny data_path=nowhere", "model=tiny +hardware.peak_tflop_per_s.X=3",
    ],
    "auto_shard": [
        "workload=conv_3x3", "devices=[1,1]", "devices=[]", "devices=[1,4] world_size=2",
        "workload=mlp_4x4x4x4x4x4x4x4x4x4 dtype=bfloat16",
    ],
    "matmul_lut": [
        "dtype=float8_e4m3fn sizes=[64,100]", "dtype=float8_e4m3fn_fast hardware=cpu sizes=[64]", "model=xl",
    ],
    "pair_matrix": ["sizes=[]", "groups=[racks]", "minutes=0"],
    "rank_speed": ["tests=[copy,sort]", "matmul_size=0"],
    "compile": [
        "workload=mlp model=tiny width=5", "workload=transformer_layer", "batch_sizes=[1,2,3] measure.max_iterations=2",
        "measure.mode=per_iteration batch_sizes=[1,2]",
    ],
}  # fmt: skip
ACCEPTED = [
    "+suite=collective data_size=[1,2] timeout_s=44",
    "+suite=collective data_size=[1,2] timeout_s=22 measure.mode=loop",
    "+suite=ring_attention head_dim=2", "+suite=ring_attention head_dim=12 hardware=cuda",
    "+suite=tp_columnwise k=100", "+suite=pair_matrix world_size=1",
]  # fmt: skip
"""As much as is allowed."""


@cache
def composed(*groups):
    composition.register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose("config", [*groups])


def typed(given):
    """A configuration as a point has it; groups are composed once, and values set in a copy."""
    words = given.split()
    groups = [word for word in words if word.startswith(("+", "model=", "hardware="))]
    values = OmegaConf.from_dotlist([word for word in words if word not in groups])
    return composition.to_structured_config(OmegaConf.merge(composed(*groups), values))


@pytest.mark.parametrize("suite", REFUSED)
def test_suite_refuses_in_one_line(golden, suite):
    said = []
    for given in REFUSED[suite]:
        with pytest.raises(ConfigError) as refusal:
            typed(f"+suite={suite} {given}")
        said.append(str(refusal.value))
    assert not any("\n" in line for line in said)
    golden("\n".join(f"{given}\n    {line}" for given, line in zip(REFUSED[suite], said, strict=True)))


@pytest.mark.parametrize("given", ACCEPTED)
def test_suite_accepts_limit(given):
    typed(given)


XL = ModelConfig("xl", d_model=1600, d_ff=6400, num_layers=48, num_heads=25, vocab_size=10000)


def test_products_of_a_layer_have_its_weights():
    weights = sum(rows * columns for rows, columns in (layer_shape(XL, layer) for layer in LAYERS if layer != "head"))
    gate, norms = XL.d_model * XL.d_ff, 2 * XL.d_model
    assert weights + gate + norms == layer_parameters(XL)


@pytest.mark.parametrize(("layer", "k", "n"), [("attn_qkv", 1600, 4800), ("head", 1600, 10000)])
def test_product_has_the_shape_of_a_layer(layer, k, n):
    config = typed(f"+suite=tp_rowwise model=xl layer={layer} m=512")
    assert (config.m, config.k, config.n) == (512, k, n)


def test_rank_of_a_column_parallel_layer_has_a_part_of_its_columns():
    config = typed("+suite=tp_columnwise model=xl layer=ffn_up world_size=4")
    assert (config.k, config.n) == (1600, 6400 / 4)


def test_ring_has_the_heads_of_a_model():
    config = typed("+suite=ring_attention model=xl")
    assert (config.num_heads, config.head_dim) == (25, 64)


@pytest.mark.parametrize(
    ("given", "num_bytes"),
    [
        ("tensor:2048", 2048 * 1600 * 2),
        ("[sequence:1,4B]", [2 * 1600 * 2, 4]),
        ("gradients", 2 * (48 * layer_parameters(XL) + 2 * 10000 * 1600 + 1600)),
    ],
)
def test_message_has_the_size_of_a_models_traffic(given, num_bytes):
    size = typed(f"+suite=collective model=xl dtype=bfloat16 data_size={given}").data_size
    found = [each * 2**20 for each in size] if isinstance(size, list) else size * 2**20
    assert found == num_bytes
