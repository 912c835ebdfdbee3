"""Names in records of transformer, which the suite writes and its analysis reads."""

from benchkit.api.details import BACKWARD as BACKWARD
from benchkit.api.details import FORWARD as FORWARD

PASS, RANKS, PART = "pass", "ranks", "part"
"""Labels of a case."""
WHOLE, COMMUNICATION = "whole", "communication"
"""Values of PART: the whole pass, or its communication alone."""
LOSS, OPTIMIZER = "loss", "optimizer"
PHASES = (FORWARD, LOSS, BACKWARD, OPTIMIZER)
"""The regions of a training step."""
FORWARD_BACKWARD, TRAIN_STEP = "forward_backward", "train_step"
PASSES = (FORWARD, FORWARD_BACKWARD, TRAIN_STEP)
"""Values of PASS, the shortest first."""
PARAMETERS, PEAK_BYTES = "parameters", "peak_bytes"
"""Details of a case."""
