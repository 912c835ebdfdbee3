"""From YAML and the command line to typed configurations. Only this package and benchkit.sweep.sweeper know Hydra."""
