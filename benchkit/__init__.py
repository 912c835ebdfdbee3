"""benchkit: distributed deep-learning benchmarks from one command.

Nothing heavy is imported here: `--help` and configuration errors must answer without torch.
"""

__version__ = "0.1.0"
