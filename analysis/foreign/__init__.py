"""Files of other systems: read as timings beside ours, and written of our records."""
