"""Training steps of a transformer over model sizes, on one rank and on several."""
