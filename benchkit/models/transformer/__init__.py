"""A decoder-only language model, its training step, and what is known of both before anything is built."""
