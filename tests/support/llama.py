"""A suite for comparison: forward and backward of our network and of Hugging Face's Llama of the same sizes, in turns.

Both are eager, with the same attention kernel (scaled_dot_product_attention), the same loss and the same batch.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from benchkit.api.case import Call, Case, Rank
from benchkit.api.keys import RunConfig, key
from benchkit.api.registry import suite
from benchkit.errors import InvalidResult
from benchkit.suites.transformer.data import Batches
from benchkit.suites.transformer.model import NORM_EPS, ROTARY_BASE, Network, build
from benchkit.suites.transformer.passes import Steps
from torch import Tensor, nn

OF_OURS = {
    "embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head", "layers": "model.layers",
    "attention_norm": "input_layernorm", "feed_forward_norm": "post_attention_layernorm",
    "attention.query": "self_attn.q_proj", "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj", "attention.out": "self_attn.o_proj",
    "feed_forward.gate": "mlp.gate_proj", "feed_forward.up": "mlp.up_proj", "feed_forward.down": "mlp.down_proj",
}  # fmt: skip
"""Names of our parameters, or parts of them, and of Llama's."""


@dataclass
class LlamaConfig(RunConfig):
    uses_model: ClassVar[bool] = True

    context_length: int = key("tokens of a sequence", at_least=1)
    batch_size: int = key("sequences per step", unit="sequences", at_least=1)


def llama_name(name: str) -> str:
    """Ours to theirs: layers.0.attention.query.weight -> model.layers.0.self_attn.q_proj.weight."""
    parts = name.removesuffix(".weight").split(".")
    if parts[0] == "layers":
        return f"{OF_OURS['layers']}.{parts[1]}.{OF_OURS['.'.join(parts[2:])]}.weight"
    return f"{OF_OURS[parts[0]]}.weight"


def llama_like(network: Network, model: Any) -> nn.Module:
    """Hugging Face's Llama with our weights."""
    from transformers import LlamaConfig as TheirConfig
    from transformers import LlamaForCausalLM

    theirs = LlamaForCausalLM(
        TheirConfig(
            vocab_size=model.vocab_size, hidden_size=model.d_model, intermediate_size=model.d_ff,
            num_hidden_layers=model.num_layers, num_attention_heads=model.num_heads, rms_norm_eps=NORM_EPS,
            rope_parameters={"rope_type": "default", "rope_theta": ROTARY_BASE}, attn_implementation="sdpa",
            tie_word_embeddings=False, use_cache=False,
        )
    )  # fmt: skip
    theirs.load_state_dict({llama_name(name): weight for name, weight in network.state_dict().items()})
    return theirs


class Logits(nn.Module):
    """Llama as a function of tokens [B, s] to logits [B, s, V]."""

    def __init__(self, llama: nn.Module) -> None:
        super().__init__()
        self.llama = llama

    def forward(self, tokens: Tensor) -> Tensor:
        return self.llama(input_ids=tokens).logits


@suite
def llama(config: LlamaConfig, rank: Rank) -> list[Case]:
    """Our network beside Hugging Face's Llama: forward and backward."""
    ours = build(lambda: Network(config.model), torch.float32, rank.device, rank.seed)
    theirs = Logits(llama_like(ours, config.model)).to(rank.device)
    batches = Batches(config.batch_size, config.context_length, config.model.vocab_size, None, rank.device, rank.seed)

    def verify(call: Call) -> None:
        with torch.inference_mode():
            if not torch.allclose(ours(batches.inputs), theirs(batches.inputs), atol=1e-4):
                raise InvalidResult("logits differ")

    def case(name: str, model: nn.Module, baseline: Case | None = None) -> Case:
        steps = Steps(model, model)
        return Case(
            step=lambda: steps.forward_backward(batches.inputs, batches.targets),
            labels={"network": name},
            reset=batches.draw,
            verify=verify,
            baseline=baseline,
        )

    baseline = case("hugging face", theirs)
    return [case("ours", ours, baseline), baseline]
