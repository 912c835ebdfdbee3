"""What records say of the state of GPUs: names among a case's disturbances, and reasons."""

READINGS = ("sm_mhz", "mem_mhz", "power_w", "temperature_c")
"""What one reading holds; a case has one before and one after it."""
BUSY_MHZ, BUSY_W = "gpu_sm_mhz_busy", "gpu_power_w_busy"
"""The lowest clock and the highest power while the GPU worked on a case."""
CLOCK_REASONS = "gpu_clock_reasons"
"""The bits of nvmlClocksEventReasons (nvml.h) that were set during or after any turn of a case."""
FIELDS = (
    *(f"gpu_{name}_before" for name in READINGS),
    *(f"gpu_{name}_after" for name in READINGS),
    BUSY_MHZ,
    BUSY_W,
    CLOCK_REASONS,
)
"""Names among the disturbances of a case: [rank]."""
SETTING = 0x02
"""The bit for clocks that are limited by a setting: application clocks or locked clocks."""
HOLDS_BACK = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost group",
    0x20: "temperature (driver)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""The bits of what else holds clocks back."""
