"""A simulated acceptance: a described cluster, a flow model, and the verdict on it."""
