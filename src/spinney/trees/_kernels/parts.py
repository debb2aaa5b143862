"""Bins that are divided into parts: where each part ends, and which part holds a value.

Codes number the parts of a column from its lowest bin to its highest. `begins[column, bin]` is the
code at which a bin begins, and 2^30 behind the last; it has no columns if no bin is divided: then a
code is a bin. Nothing is counted for parts: between two edges they are equally wide, and
beyond the outermost edges they grow with the distance, from the width of the next bin.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

_REACH = 0.75  # parts of an outermost bin reach 1 / (1 - 0.75) widths of the next bin


@inlined
def _end_of_part(edges, column, here, part, n_parts):
    """Return where a part of a bin ends; the last part ends where its bin does."""
    if part == n_parts:
        return edges[column, here]
    share = np.float64(part) / np.float64(n_parts)
    if here == 0:
        first = np.float64(edges[column, 0])
        width = np.float64(edges[column, 1]) - first
        return np.float32(first - width * (1.0 - share) / (1.0 - _REACH * (1.0 - share)))
    below = np.float64(edges[column, here - 1])
    above = np.float64(edges[column, here])
    if np.isfinite(above):
        return np.float32(below + (above - below) * share)
    width = below - np.float64(edges[column, here - 2])
    return np.float32(below + width * share / (1.0 - _REACH * share))


@inlined
def _bin_of(begins, column, code):
    """Return the bin that a code lies in."""
    here = 0
    step = 128
    while step > 0:
        here += step if begins[column, here + step] <= code else 0
        step >>= 1
    return here


@inlined
def edge_above(edges, begins, column, code):
    """Return the upper edge of a code: of its bin, or of its part of the bin."""
    if begins.shape[1] == 0:
        return edges[column, code]
    here = _bin_of(begins, column, code)
    n_parts = begins[column, here + 1] - begins[column, here]
    return _end_of_part(edges, column, here, code - begins[column, here] + 1, n_parts)


@inlined
def code_of(edges, begins, column, value):
    """Return how many edges of codes lie below a value."""
    here = 0
    step = 128
    while step > 0:
        here += step if edges[column, here + step - 1] < value else 0
        step >>= 1
    n_parts = begins[column, here + 1] - begins[column, here]
    least = 1
    most = n_parts
    while least < most:  # the first part that ends at or above the value
        part = (least + most) >> 1
        if _end_of_part(edges, column, here, part, n_parts) < value:
            least = part + 1
        else:
            most = part
    return begins[column, here] + least - 1


@kernel
def bin_into_parts(values, edges, begins, column, out):
    """Write the code of each value; that of a missing one is above all."""
    for i in range(values.shape[0]):
        value = values[i]
        out[i] = (
            np.uint16(65535)
            if np.isnan(value)
            else np.uint16(code_of(edges, begins, column, value))
        )


@kernel
def edges_above(edges, begins, n_codes, columns, codes, out):
    """Write the upper edge of each code, of any column; infinity for the last and above."""
    for i in range(codes.shape[0]):
        column = columns[i]
        code = np.int64(codes[i])
        out[i] = np.float32(np.inf)
        if code < n_codes[column] - 1:
            out[i] = edge_above(edges, begins, column, code)
