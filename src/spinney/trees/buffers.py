"""A pool of memory for the large arrays that every level allocates and frees.

Fresh memory costs a page fault every few kilobytes, and histograms are large and numerous. An
array from this pool returns its memory automatically when its last view is gone.
"""

import weakref
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROOM = 4
_LEAST_BYTES = 1 << 27
_KEPT = 8  # spare buffers: a sum, two that are being counted; all parties' if they are masked


class _Lease:
    """A lease that an array holds while its memory is in use; views keep the array alive."""

    __slots__ = ("__array_interface__", "__weakref__", "buffer")

    def __init__(self, buffer: NDArray[np.uint8], n: int, dtype: np.dtype[Any]) -> None:
        self.buffer = buffer
        self.__array_interface__ = {
            "shape": (n,),
            "typestr": dtype.str,
            "data": (buffer.ctypes.data, False),
            "version": 3,
        }


class Buffers:
    """Memory for arrays of one job; parties in one process may share it."""

    def __init__(self) -> None:
        self._spare: list[NDArray[np.uint8]] = []
        self._lock = RLock()  # forests may grow on threads; a lease may end in here

    def array(self, n: int, dtype: Any) -> NDArray[Any]:
        """Return an uninitialised array of `n` numbers."""
        size = n * np.dtype(dtype).itemsize
        with self._lock:
            fitting = [spare for spare in self._spare if spare.size >= size]
            if fitting:
                buffer = min(fitting, key=len)
                self._spare = [spare for spare in self._spare if spare is not buffer]
        if not fitting:
            # Leave room to grow: the next levels are larger, and untouched memory costs nothing.
            buffer = np.empty(max(_ROOM * size, _LEAST_BYTES), np.uint8)
        lease = _Lease(buffer, n, np.dtype(dtype))
        weakref.finalize(lease, self._take_back, buffer)
        return np.asarray(lease)

    def clear(self) -> None:
        """Free the spare memory."""
        with self._lock:
            self._spare = []

    def _take_back(self, buffer: NDArray[np.uint8]) -> None:
        with self._lock:
            largest = sorted([*self._spare, buffer], key=len, reverse=True)
            self._spare = largest[:_KEPT]


SHARED = Buffers()
"""The memory of histograms, for all parties in this process."""
