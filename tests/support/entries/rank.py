"""What tests take from benchkit.rank."""
