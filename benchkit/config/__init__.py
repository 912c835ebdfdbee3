"""Makes typed configurations from YAML and the command line.

Only this package, benchkit.sweep and benchkit.cli know Hydra.
"""
