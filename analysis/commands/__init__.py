"""The subcommands of `python -m analysis`."""
