"""Tells what this machine can tell: `python -m benchkit selftest`, and the noise floor it finds."""
