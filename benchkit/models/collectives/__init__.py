"""Collectives: what each rank gives and gets, how the call is made, and what must be there afterwards."""
