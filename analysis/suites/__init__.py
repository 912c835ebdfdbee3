"""Tables and plots of one suite each, in a folder of the suite's name."""
