"""Estimate class counts from sums of noisy bits: nonnegative least squares.

Every sum is taken in a fixed order, without a library of linear algebra: all who derive the counts
get the same bits, whatever their processor.
"""

import numpy as np

from spinney.trees._kernels.compiling import kernel


@kernel
def invert(matrix):
    """Return the inverse of a positive definite matrix (Gauss and Jordan)."""
    n = matrix.shape[0]
    left, right = matrix.copy(), np.eye(n)
    for k in range(n):
        pivot = left[k, k]
        for j in range(n):
            left[k, j] /= pivot
            right[k, j] /= pivot
        for i in range(n):
            factor = left[i, k]
            if i != k and factor != 0.0:
                for j in range(n):
                    left[i, j] -= factor * left[k, j]
                    right[i, j] -= factor * right[k, j]
    return right


@kernel
def nonnegative(design, gram, inverse, bits, n_sweeps, x):
    """Minimise |A'x - b| over x >= 0 for each line b of `bits`; A is `design`, (n_classes, n_bits).

    Coordinate descent starts from the solution that may be negative, given AA' and its inverse;
    each sweep lowers the error. It ends when a sweep changes no entry by more than a thousandth of
    a row.
    """
    n = design.shape[0]
    projected = np.zeros(n)
    for line in range(bits.shape[0]):
        for j in range(n):
            projected[j] = 0.0
            for b in range(design.shape[1]):
                projected[j] += design[j, b] * bits[line, b]
        for j in range(n):
            start = 0.0
            for k in range(n):
                start += inverse[j, k] * projected[k]
            x[line, j] = max(0.0, start)
        for _ in range(n_sweeps):
            moved = 0.0
            for j in range(n):
                slope = projected[j]
                for k in range(n):
                    slope -= gram[j, k] * x[line, k]
                new = max(0.0, x[line, j] + slope / gram[j, j])
                moved = max(moved, abs(new - x[line, j]))
                x[line, j] = new
            if moved < 1e-3:
                break
