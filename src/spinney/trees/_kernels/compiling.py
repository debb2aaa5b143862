"""How kernels are compiled: one place for the flags, with their reasons."""

import warnings
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import _CacheLocator

from spinney.errors import SpinneyWarning

# nogil: callers run kernels on threads. cache: a warm start loads machine code instead of compiling
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
    # Numba considers cached code valid while its own file is unchanged, even if constants and
    # helpers that were compiled into it from other files have changed.
    kept = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if kept is not None:
        kept._source_stamp = _digest_of_all_kernels()  # noqa: SLF001
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a small helper; LLVM puts it into the kernels that call it.

    Numba's own inlining would type it anew at every call: kernels took up to twice as long to
    compile and ran no faster.
    """
    compiled: Callable[..., Any] = njit(**_FLAGS)(function)
    return compiled


def spliced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a small helper that Numba writes into the kernels that call it.

    It takes longer to compile than `inlined`. LLVM vectorises loops over parts of arrays only so:
    histograms are packed in half the time.
    """
    compiled: Callable[..., Any] = njit(inline="always", **_FLAGS)(function)
    return compiled


def cache_folder() -> Path | None:
    """Return where this process keeps compiled kernels; None if it can write nowhere."""
    try:
        probe: Any = njit(**_FLAGS | {"cache": True})(_one)
    except RuntimeError:  # neither beside the library, nor at home, nor in NUMBA_CACHE_DIR
        return None
    return Path(probe._cache.cache_path)  # noqa: SLF001


def cache_folder_in(folder: Path) -> Path:
    """Return where a process keeps compiled kernels whose `NUMBA_CACHE_DIR` is `folder`."""
    subfolder: str = _CacheLocator.get_suitable_cache_subpath(__file__)
    return folder / subfolder


def _one() -> int:
    return 1


@cache
def _digest_of_all_kernels() -> str:
    state = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        state.update(path.name.encode() + path.read_bytes())
    return state.hexdigest()


if cache_folder() is None:
    _FLAGS["cache"] = False
    warnings.warn(
        "Compiled code cannot be kept: neither the folder of Spinney nor your home can be written "
        "to. Every start takes half a minute longer. Set NUMBA_CACHE_DIR to a folder of your own.",
        SpinneyWarning,
        stacklevel=2,
    )
