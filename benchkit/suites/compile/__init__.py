"""First steps and steady state of compiled code, against eager code."""
