"""What this host's GPUs are and what state they are in; no module here loads torch."""
