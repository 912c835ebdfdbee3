"""Matrix products under shares of a device: tables of performance by share."""
