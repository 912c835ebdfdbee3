"""benchkit: distributed deep-learning benchmarks from one command.

This module imports nothing heavy: `--help` and configuration errors must answer without torch.
"""

__version__ = "0.1.0"
