"""The agents of one run: rendezvous, messages, clock offsets, exclusive use of hosts."""
