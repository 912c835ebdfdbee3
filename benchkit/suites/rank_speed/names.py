"""Names in records of rank_speed, which the suite writes and its analysis reads."""

TEST, DTYPE = "test", "dtype"
"""Labels of a case."""
MATMUL, COPY, TRIAD = "matmul", "copy", "triad"
TO_DEVICE, FROM_DEVICE = "host_to_device", "device_to_host"
DISK_WRITE, DISK_READ = "disk_write", "disk_read"
TESTS = (MATMUL, COPY, TRIAD, TO_DEVICE, FROM_DEVICE, DISK_WRITE, DISK_READ)
"""Values of the key `tests`."""
MOVED_BYTES, FLOPS = "moved_bytes", "flops_per_rank"
"""Details of a case: what a call moves or computes on each rank."""
CACHE = "cache"
"""Detail of a disk's case: what the kernel's cache did."""
