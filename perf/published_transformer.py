"""Convert published times of CS336's language models to rates, by our count of operations.

    python -m perf.published_transformer

The times are those of the README of AR0OK1ePro's scripts: milliseconds of a pass on one CUDA GPU in float32, four
sequences, five warm-ups, ten trials.
"""

import yaml
from benchkit.api.keys import ModelConfig
from benchkit.suites.transformer.suite import FORWARD, FORWARD_BACKWARD, forward_flops, pass_flops
from tests.support.cli import ROOT

SEQUENCES = 4
PUBLISHED_MS = {
    ("small", 128): (37.7, 109.8), ("small", 256): (39.4, 112.6),
    ("medium", 128): (73.7, 190.5), ("medium", 256): (73.7, 187.1),
    ("large", 128): (93.8, 257.1), ("large", 256): (110.3, 296.6),
    ("xl", 128): (151.3, 348.4), ("xl", 256): (163.1, 499.8),
    ("2.7B", 128): (133.3, 405.9), ("2.7B", 256): (246.9, 756.9),
}  # fmt: skip
"""Times of forward, and of forward and backward, by model and context."""
COLUMNS = (
    "model", "context", "forward [ms]", "forward and backward [ms]", "forward [TFLOP/s]",
    "forward and backward [TFLOP/s]", "tokens/s",
)  # fmt: skip


def line(name: str, context: int, forward_ms: float, both_ms: float) -> str:
    content = yaml.safe_load((ROOT / "conf" / "model" / f"{name}.yaml").read_text())
    forward = forward_flops(ModelConfig(**content), SEQUENCES, context, causal=False)
    rates = [
        pass_flops(kind, forward) / (time_ms * 1e9)
        for kind, time_ms in ((FORWARD, forward_ms), (FORWARD_BACKWARD, both_ms))
    ]
    tokens = SEQUENCES * context / both_ms * 1e3
    cells = [name, f"{context}", f"{forward_ms}", f"{both_ms}", *(f"{rate:.1f}" for rate in rates), f"{tokens:.0f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for (name, context), times_ms in PUBLISHED_MS.items():
        print(line(name, context, *times_ms))


if __name__ == "__main__":
    main()
