"""Speed of each single rank, compared with its peers and the data sheet of its device."""
