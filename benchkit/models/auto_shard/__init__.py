"""The same program on one device and sharded over several: workloads, the planner, and who carries out its plans."""
