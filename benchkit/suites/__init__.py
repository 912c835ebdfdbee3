"""One folder per suite: its keys, its `@suite` function, and the cases that this returns."""
