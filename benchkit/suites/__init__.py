"""One file per suite: the dataclass of its keys and one `@suite` function that returns its cases."""
