"""Collectives of torch.distributed, latency and bandwidth, over message sizes."""
