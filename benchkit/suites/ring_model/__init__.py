"""A decoder on a sequence that ranks of unequal speed share: prefill and decode."""
