"""How kernels are compiled: one place for the flags, with their reasons."""

from collections.abc import Callable
from typing import Any

from numba import njit

# nogil: callers run kernels on threads. cache: a warm start loads machine code instead of making
# it. boundscheck off and the numpy error model: no hidden branches in inner loops.
_FLAGS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "boundscheck": False,
    "error_model": "numpy",
}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` on first call, or load it from the cache."""
    compiled: Callable[..., Any] = njit(**_FLAGS)(function)
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a small helper into the kernels that call it."""
    compiled: Callable[..., Any] = njit(inline="always", **_FLAGS)(function)
    return compiled
