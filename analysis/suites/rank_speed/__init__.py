"""What each rank can do alone, beside its peers and the data sheet of its device."""
