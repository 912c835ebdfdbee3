"""Configures the transformer suite: step time, memory and utilisation of a language model."""

from dataclasses import dataclass
from typing import ClassVar

from benchkit.api.groups import check_model_heads
from benchkit.api.keys import key
from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError
from benchkit.suites.transformer.data import check_ids
from benchkit.suites.transformer.names import PASSES

KERNELS = ("auto", "flash", "efficient", "cudnn", "math", "naive")
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
