"""Times the cases of one job."""
