"""What ranks can do, all at the same time and each for itself: compute, memory, disk."""
