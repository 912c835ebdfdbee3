"""All points of one command: checked, claimed, run here or submitted, and counted."""
