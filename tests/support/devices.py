"""Devices that are not there: of tensors without values (the device `meta`), and of tensors in host memory."""

from typing import ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")


class Copies(TorchDispatchMode):
    """Notes the operations that read host memory and write that of the device."""

    def __init__(self):
        super().__init__()
        self.from_host = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        read = {value.device.type for value in args if isinstance(value, torch.Tensor) and value.dim()}
        if isinstance(result, torch.Tensor) and result.device == META and "cpu" in read:
            self.from_host.append(str(operation))
        return result


READS = ("__bool__", "__int__", "__float__", "cpu", "equal", "item", "nonzero", "tolist")
"""Functions for whose result the host waits in C."""


class OnGpu(torch.Tensor):
    """A tensor of the host that says it is on a GPU; notes what the host reads of it.

    Attributes:
        noted: functions called, of all such tensors: READS and what a test adds.
    """

    is_cuda = True
    noted: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ in READS:
            cls.noted.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


class Generator(torch.Generator):
    """The device has no generator: one of the host draws there, too."""

    def __new__(cls, device=None):
        return super().__new__(cls)
