"""Counts the parameters of a decoder-only language model of the sizes in ModelConfig."""

from benchkit.api.groups import ModelConfig


def parameters(model: ModelConfig) -> int:
    """Counts the parameters of embedding, layers, last norm and untied head."""
    tables = (2 * model.vocab_size + 1) * model.d_model
    return int(tables + model.num_layers * layer_parameters(model))


def layer_parameters(model: ModelConfig) -> int:
    """Counts the parameters of four projections, a gated feed-forward layer and two norms."""
    return 4 * model.d_model**2 + 3 * model.d_model * model.d_ff + 2 * model.d_model
