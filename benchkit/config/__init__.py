"""Makes typed configurations from YAML and the command line.

Only this package and benchkit.sweep know Hydra; hydra_internals has all that is private to it.
"""
