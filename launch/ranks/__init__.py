"""The ranks of one point: their processes are started, watched and ended here."""
