"""A device that is not there: tensors of the device `meta`, which have shapes and no values."""

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


class Generator(torch.Generator):
    """The device has no generator: one of the host draws there, too."""

    def __new__(cls, device=None):
        return super().__new__(cls)
