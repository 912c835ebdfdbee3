"""Studies: sweeps and reports that depend on each other, run in order by one command."""
