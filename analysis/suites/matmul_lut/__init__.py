"""Performance by compute share."""
