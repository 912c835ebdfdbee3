"""Computes for the emulated GPUs in each thread that chooses one; Python imports this file when it starts."""

import importlib
import importlib.abc
import importlib.util
import os
import sys


class AfterTorchCuda(importlib.abc.MetaPathFinder):
    """Wraps torch.cuda.set_device once torch.cuda has been imported."""

    def find_spec(self, name, path, target=None):
        if name != "torch.cuda":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            choose = module.set_device

            def set_device(device):
                choose(device)
                importlib.import_module("kernels").enter()

            module.set_device = set_device

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("EMULATED_GPUS"):
    sys.meta_path.insert(0, AfterTorchCuda())
