"""The ranks of one point: how they are started, watched and ended."""
