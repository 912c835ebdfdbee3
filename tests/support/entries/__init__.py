"""What tests take from packages whose files may move: the only tests that a move changes are these files."""
