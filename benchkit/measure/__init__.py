"""Times the cases of one job: warm-up, blocks, clocks, samples, disturbances."""
