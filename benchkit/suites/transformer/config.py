"""Configures the transformer suite: step time, memory and utilisation of a language model."""

from dataclasses import dataclass
from typing import ClassVar

from benchkit.api.groups import check_model_heads
from benchkit.api.keys import key
from benchkit.api.parameters import layer_parameters, parameters
from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError
from benchkit.suites.transformer.data import check_ids
from benchkit.suites.transformer.flops import Footprint, fsdp_groups
from benchkit.suites.transformer.names import PASSES

KERNELS = ("auto", "flash", "efficient", "cudnn", "math", "naive")
SPARE_BYTES = 300 * 10**6
"""Memory beyond what is counted: buffers of the kernels, and what the allocator cannot use."""
COMPILE = ("none", "default", "reduce-overhead", "max-autotune")


@dataclass
class TransformerConfig(RunConfig):
    uses_model: ClassVar[bool] = True

    context_length: int = key("tokens of a sequence", unit="tokens", at_least=1)
    batch_size: int = key(
        "sequences per step of each copy of the model", unit="sequences", at_least=1
    )
    dtype: str = key(
        "of weights and computation; autocast: float32 weights, bfloat16 products",
        choices=("float32", "tf32", "bfloat16", "autocast"),
    )
    passes: list[str] = key("what a step is, each a case of the job", choices=PASSES)
    attention: str = key("kernel of scaled_dot_product_attention, or written out", choices=KERNELS)
    compile: str = key("mode of torch.compile", choices=COMPILE)
    activation_checkpointing: bool = key("whether backward computes each layer's forward again")
    data_path: str | None = key("token ids: raw uint16, or .npy; null: random ones")
    parallel: str = key("how several ranks share the work", choices=("none", "ddp", "fsdp", "tp"))
    bucket_mib: float = key("size of ddp's buckets of gradients", unit="MiB", above=0)

    def most_cases(self) -> int:
        """Returns the number of passes, each of which ranks that share a model time three times.

        These are the pass on all ranks, on one rank, and its communication alone.
        """
        return len(self.passes) * (1 if self.parallel == "none" else 3)

    def needed_bytes(self, world_size: int) -> float:
        return max(self.bytes_of_pass(name, world_size) for name in self.passes)

    def bytes_of_pass(self, name: str, world_size: int) -> int:
        """Estimates the memory of one rank for a pass on all ranks."""
        sent = self.message_bytes() if self.parallel != "none" and world_size > 1 else 0
        return self.footprint(self.parallel, world_size).of(name) + SPARE_BYTES + sent

    def footprint(self, kind: str, world_size: int) -> Footprint:
        """Returns the memory of one rank under a kind of parallelism."""
        assert self.model is not None
        gathered = 0
        if kind == "fsdp" and world_size > 1:
            gathered = 2 * layer_parameters(self.model) + self.model.vocab_size * self.model.d_model
        return Footprint(
            self.model,
            self.batch_size,
            self.context_length,
            weight=self.weight_bytes,
            activation=self.activation_bytes,
            naive_attention=self.attention in ("naive", "math"),
            checkpointing=self.activation_checkpointing,
            shards=world_size if kind in ("fsdp", "tp") else 1,
            gathered=gathered,
            autocast=self.dtype == "autocast",
        )

    def message_bytes(self) -> int:
        """Returns the bytes of the buffers that communication alone uses."""
        assert self.model is not None
        widest = max(self.model.d_model, self.model.vocab_size)
        sizes = {
            "ddp": parameters(self.model) * self.weight_bytes,
            "fsdp": 2 * max(fsdp_groups(self.model)) * self.weight_bytes,
            "tp": 2 * self.batch_size * self.context_length * widest * self.activation_bytes,
        }
        return sizes[self.parallel]

    @property
    def weight_bytes(self) -> int:
        """Bytes of an element of a weight."""
        return 2 if self.dtype == "bfloat16" else 4

    @property
    def activation_bytes(self) -> int:
        """Bytes of an element of an activation."""
        return 4 if self.dtype in ("float32", "tf32") else 2

    def check(self) -> None:
        super().check()
        model = self.model
        if model is None:
            raise ConfigError("model=null: choose a size, such as model=small")
        check_model_heads(model)
        if self.hardware.device == "cpu" and self.dtype == "tf32":
            raise ConfigError("dtype=tf32: allowed on a cpu are float32, bfloat16 and autocast")
        if self.parallel != "none" and self.world_size == 1:
            raise ConfigError(
                f"parallel={self.parallel}: allowed with world_size=1 is none; choose more ranks"
            )
        if self.data_path is not None:
            check_ids(self.data_path, self.context_length, model.vocab_size)
