"""Finds what is slower than its peers, and the simplest explanation: a rank, a link, a group."""
