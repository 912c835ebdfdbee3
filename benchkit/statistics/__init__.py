"""From raw samples to the figures that are reported. Pure functions of arrays; times in seconds."""
