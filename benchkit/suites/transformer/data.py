"""Token ids to train on: random, or from a file of ids, raw uint16 or .npy."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.errors import ConfigError

if TYPE_CHECKING:
    import torch

IDS_AT_ONCE = 2**24


def open_ids(path: str) -> Any:
    """Open ids as an array that stays on disk; raise OSError, or ValueError if not in one row."""
    import numpy as np

    magic = np.lib.format.MAGIC_PREFIX
    first = np.fromfile(path, np.uint8, count=len(magic)).tobytes()
    if first == magic:  # whatever its name: others call raw ids .npy, too
        ids = np.load(path, mmap_mode="r")
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise ValueError(f"an array of {ids.dtype} {list(ids.shape)}, not of ids in one row")
        return ids
    if (size := Path(path).stat().st_size) % 2:
        raise ValueError(f"{size} bytes are no whole number of uint16")
    return np.memmap(path, dtype=np.uint16, mode="r")


def check_ids(path: str, context_length: int, vocab_size: int) -> None:
    """Raise ConfigError if ids are missing, too few, or beyond the vocabulary."""
    try:
        ids = open_ids(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        allowed = "allowed are raw uint16 ids, and .npy of integers"
        raise ConfigError(f"data_path={path}: {reason}; {allowed}") from None
    if len(ids) <= context_length:
        allowed = f"allowed are more than context_length={context_length}"
        raise ConfigError(f"data_path={path}: {len(ids)} tokens; {allowed}")
    lowest, highest = extremes(path, Path(path).stat().st_mtime_ns)
    if lowest < 0 or highest >= vocab_size:
        wrong = lowest if lowest < 0 else highest
        allowed = f"allowed are 0 to model.vocab_size - 1 = {vocab_size - 1}"
        raise ConfigError(f"data_path={path}: has id {wrong}; {allowed}")


@functools.cache
def extremes(path: str, modified: int) -> tuple[int, int]:
    """Return the lowest and the highest id of a file; cached for the points of a sweep."""
    ids = open_ids(path)
    chunks = [ids[start : start + IDS_AT_ONCE] for start in range(0, len(ids), IDS_AT_ONCE)]
    lowest = min(int(chunk.min()) for chunk in chunks)
    highest = max(int(chunk.max()) for chunk in chunks)
    return lowest, highest


class Batches:
    """Token ids [batch_size, context_length] and their successors, renewed in place."""

    def __init__(
        self,
        batch_size: int,
        context_length: int,
        vocab_size: int,
        path: str | None,
        device: "torch.device",
        seed: int,
    ) -> None:
        import torch

        self._ids = open_ids(path) if path else None
        self._vocab_size = vocab_size
        self._shape = (batch_size, context_length + 1)
        # Random ids are drawn where they are needed: a copy from the host would idle the GPU.
        self._drawn_on = torch.device("cpu") if path else device
        self._generator = torch.Generator(self._drawn_on).manual_seed(seed)
        self.inputs = torch.zeros(batch_size, context_length, dtype=torch.long, device=device)
        self.targets = torch.zeros_like(self.inputs)
        self.draw()

    def draw(self) -> None:
        drawn = self._random() if self._ids is None else self._sample(self._ids)
        self.inputs.copy_(drawn[:, :-1])
        self.targets.copy_(drawn[:, 1:])

    def _random(self) -> "torch.Tensor":
        import torch

        drawn = {"generator": self._generator, "device": self._drawn_on}
        return torch.randint(self._vocab_size, self._shape, **drawn)

    def _sample(self, ids: Any) -> "torch.Tensor":
        import numpy as np
        import torch

        rows, length = self._shape
        starts = torch.randint(len(ids) - length + 1, (rows,), generator=self._generator)
        sequences = [ids[start : start + length].astype(np.int64) for start in starts.tolist()]
        return torch.from_numpy(np.stack(sequences))
