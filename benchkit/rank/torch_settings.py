"""What torch keeps for a whole process, as a rank sets it before anything is built."""

import torch


def set_up_torch(threads: int) -> None:
    """Sets the number of CPU threads, and full precision for products of float32.

    A suite that measures TF32 asks for it later. The default is not relied upon:
    TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1, which NVIDIA's images set, changes it to TF32.
    """
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
