"""The parameters and products of a decoder-only language model of the sizes in ModelConfig."""

from benchkit.api.groups import ModelConfig


def parameters(model: ModelConfig) -> int:
    """Counts the parameters of embedding, layers, last norm and untied head."""
    tables = (2 * model.vocab_size + 1) * model.d_model
    return int(tables + model.num_layers * layer_parameters(model))


def layer_parameters(model: ModelConfig) -> int:
    """Counts the parameters of four projections, a gated feed-forward layer and two norms."""
    return 4 * model.d_model**2 + 3 * model.d_model * model.d_ff + 2 * model.d_model


LAYERS = ("attn_qkv", "attn_out", "ffn_up", "ffn_down", "head")
"""The products of tokens with weights, by name; ffn_up is one of the gated layer's two."""


def layer_shape(model: ModelConfig, layer: str) -> tuple[int, int]:
    """Returns the rows k and columns n of a layer's weights.

    Args:
        model: the sizes of the model.
        layer: one of LAYERS; attn_qkv is one product for queries, keys and values.
    """
    width, inner = model.d_model, model.d_ff
    return {
        "attn_qkv": (width, 3 * width),
        "attn_out": (width, width),
        "ffn_up": (width, inner),
        "ffn_down": (inner, width),
        "head": (width, model.vocab_size),
    }[layer]
