"""`python -m benchkit selftest`: measures the noise of this machine, and its noise floor."""
