"""The wait for a GPU before the host reads what it has computed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def wait_for_device(tensor: "torch.Tensor") -> None:
    """Waits until the GPU of a tensor has done all that was queued; for other devices at once.

    A read waits, too, but in C, with the reader as innermost Python frame: a rank that hangs there
    because another one does not take part would look like the cause of the hang. In
    torch.cuda.synchronize it counts as waiting (launch/ranks/stack_dump.py).
    """
    if tensor.is_cuda:
        import torch

        torch.cuda.synchronize(tensor.device)
