"""Messages whose tensors travel beside them: each is stored once, expanded rows too, and read without a copy."""

from __future__ import annotations

import io
import mmap
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

ALIGNED = 64
NORESERVE = 0x4000 if sys.platform == "linux" else 0  # mmap.MAP_NORESERVE, which Python 3.11 does not name
StoredTensor = int | np.ndarray  # where a tensor lies, or its bytes
Put = Callable[[Tensor], StoredTensor]
Get = Callable[[StoredTensor, torch.dtype, tuple[int, ...]], Tensor]


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, put: Put) -> None:
        super().__init__(file, protocol=5)
        self._put = put
        self._places: dict[Any, StoredTensor] = {}

    def persistent_id(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return None
        one = value.detach()
        for dim, stride in enumerate(one.stride()):
            if stride == 0 and one.shape[dim] > 1:
                one = one.narrow(dim, 0, 1)
        key = (one.data_ptr(), one.shape, one.stride(), one.dtype)
        if key not in self._places:
            self._places[key] = self._put(one)
        return self._places[key], one.dtype, tuple(one.shape), tuple(value.shape)


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, get: Get) -> None:
        super().__init__(file)
        self._get = get

    def persistent_load(self, pid: Any) -> Tensor:
        place, dtype, shape, expanded = pid
        return self._get(place, dtype, shape).expand(expanded)


def write(message: Any, put: Put) -> bytes:
    file = io.BytesIO()
    _Writer(file, put).dump(message)
    return file.getvalue()


def read(data: bytes, get: Get) -> Any:
    return _Reader(io.BytesIO(data), get).load()


def to_bytes(value: Tensor) -> np.ndarray:
    flat = value.contiguous().reshape(-1)
    return flat.as_strided(flat.shape, (1,)).view(torch.uint8).numpy()  # one number may have stride 0


def from_bytes(content: np.ndarray, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if not len(content):
        return torch.empty(shape, dtype=dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(content).view(dtype).view(shape)


class Arena:
    """Memory shared with the processes that are forked later. Its size is an address range: only what is written to
    is taken, and what does not fit goes inside the message."""

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | NORESERVE)
        self._end = 0

    def write(self, message: Any, *, answer: bool = False) -> bytes:
        """An answer lies behind the message that was read last, any other message at the beginning."""
        if not answer:
            self._end = 0
        content = write(message, self._put)
        return self._end.to_bytes(8, "little") + content

    def read(self, data: bytes) -> Any:
        """Its tensors are overwritten by the next message."""
        self._end = int.from_bytes(data[:8], "little")
        return read(data[8:], self._get)

    def _put(self, value: Tensor) -> StoredTensor:
        if self._end + value.nbytes > len(self._memory):
            return to_bytes(value).copy()
        place = self._end
        self._get(place, value.dtype, tuple(value.shape)).copy_(value)
        self._end += -(-value.nbytes // ALIGNED) * ALIGNED
        return place

    def _get(self, place: StoredTensor, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        if isinstance(place, np.ndarray):
            return from_bytes(place, dtype, shape)
        count = int(np.prod(shape))
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self._memory, dtype=dtype, count=count, offset=place).view(shape)
