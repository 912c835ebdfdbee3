"""Files of other systems: read as timings beside ours, and written from our records."""
