"""The processes of ranks: start, monitor, diagnose, terminate."""
