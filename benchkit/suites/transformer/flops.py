"""Parameters, floating-point operations and bytes of a decoder-only language model, from its sizes alone: no torch.

T tokens in sequences of s; d = d_model, f = d_ff, V = vocab_size. Operations are those of matrix products, two per
multiply-add; norms, softmax, rotary positions and the optimizer are not counted, as is usual.
"""

from dataclasses import dataclass

from benchkit.api.schema import ModelConfig

PASSES = ("forward", "forward_backward", "train_step")


def parameters(model: ModelConfig) -> int:
    """Of embedding, layers, last norm and untied head."""
    return int((2 * model.vocab_size + 1) * model.d_model + model.num_layers * layer_parameters(model))


def forward_flops(model: ModelConfig, batch_size: int, context_length: int, causal: bool) -> float:
    """Of one forward pass. Attention counts every pair of tokens, or with `causal` those that see each other alone.

    Per layer 2 T (4 d^2 + 3 d f) + 4 d x pairs, and 2 T d V for the head: PaLM (2204.02311), appendix B, which counts
    every pair.
    """
    tokens = batch_size * context_length
    pairs = tokens * (context_length + 1) / 2 if causal else tokens * context_length
    weights = layer_parameters(model) - 2 * model.d_model  # its norms are no matrices
    per_layer = 2.0 * tokens * weights + 4.0 * model.d_model * pairs
    return model.num_layers * per_layer + 2.0 * tokens * model.d_model * model.vocab_size


def recomputed_flops(model: ModelConfig, batch_size: int, context_length: int, causal: bool) -> float:
    """What activation checkpointing computes again: all layers, but not the last product of each, which it knows."""
    tokens = batch_size * context_length
    head, down = 2.0 * tokens * model.d_model * model.vocab_size, 2.0 * tokens * model.d_model * model.d_ff
    return forward_flops(model, batch_size, context_length, causal) - head - model.num_layers * down


def pass_flops(name: str, forward: float, again: float = 0.0) -> float:
    """Of a pass: backward is twice forward. again: what is computed once more."""
    return forward if name == "forward" else 3 * forward + again


def layer_parameters(model: ModelConfig) -> int:
    """Of four projections, a gated feed-forward layer and two norms."""
    return 4 * model.d_model**2 + 3 * model.d_model * model.d_ff + 2 * model.d_model


@dataclass(frozen=True)
class Footprint:
    """Bytes of one rank. weight, activation: bytes of an element of either. shards: ranks that share the weights.

    gathered: weights that are there whole at times. autocast: a copy of each weight in bfloat16. naive_attention: all
    scores are kept, as the kernel `math` does, too.
    """

    model: ModelConfig
    batch_size: int
    context_length: int
    weight: int
    activation: int
    naive_attention: bool = False
    checkpointing: bool = False
    shards: int = 1
    gathered: int = 0
    autocast: bool = False

    def of(self, name: str) -> int:
        """What a pass needs at its peak; within some 20 %, measured (tests/suites/test_transformer.py)."""
        weights = parameters(self.model) * self.weight // self.shards + self.gathered * self.weight
        copied = 2 * parameters(self.model) if self.autocast else 0
        if name == "forward":
            return weights + copied + max(self.transient(), self.checking(copies=1))
        states = 2 if name == "train_step" else 0  # AdamW's two moments
        return (
            weights * (2 + states) + copied + max(self.kept(), self.kept() // self.batch_size + self.checking(copies=3))
        )

    def checking(self, copies: int) -> int:
        """What comparing with the definition needs: half a layer or a table in float64, and its gradient twice."""
        model = self.model
        return copies * 8 * model.d_model * max(4 * model.d_model, 3 * model.d_ff, model.vocab_size)

    def transient(self) -> int:
        """The largest of what one forward pass holds at a time: the feed-forward layer's, or the logits."""
        tokens, model = self.batch_size * self.context_length, self.model
        inner = tokens * (2 * model.d_model + 3 * model.d_ff) * self.activation
        return max(inner + self.scores(), tokens * (model.d_model + model.vocab_size) * self.activation)

    def kept(self) -> int:
        """What backward needs of forward: per layer some tensors [T, d] and [T, f], and the logits with the loss's.

        Counted from the graph: two norms keep input and output, attention its rotated q, k, v, output and those of
        the projections' inputs, the feed-forward layer gate, its activation, up and their product.
        """
        tokens, model = self.batch_size * self.context_length, self.model
        per_layer = tokens * (10 * model.d_model + 4 * model.d_ff) * self.activation + self.scores()
        per_layer += tokens * 6 * model.d_model * 4 if self.autocast else 0  # what is added up stays in float32
        layers = model.num_layers
        whole = (
            per_layer + layers * tokens * model.d_model * self.activation if self.checkpointing else layers * per_layer
        )
        return whole + self.loss()

    def loss(self) -> int:
        """Logits, their log-softmax, and its gradient."""
        return 3 * self.batch_size * self.context_length * self.model.vocab_size * max(4, self.activation)

    def scores(self) -> int:
        """What attention written out holds per layer: scores and weights of every pair of tokens."""
        pairs = self.batch_size * self.context_length**2 * self.model.num_heads
        return 2 * pairs * self.activation if self.naive_attention else 0
