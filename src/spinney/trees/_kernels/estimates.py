"""Estimate class counts from sums of noisy bits: nonnegative least squares."""

from spinney.trees._kernels.compiling import kernel


@kernel
def nonnegative(gram, projected, n_sweeps, x):
    """Minimise |A x - b| over x >= 0, line by line, given A'A and A'b (n_lines, n_classes).

    Coordinate descent starts from the given `x`; each sweep lowers the error. It ends when a sweep
    changes no entry by more than a thousandth of a row.
    """
    n = gram.shape[0]
    for line in range(projected.shape[0]):
        for _ in range(n_sweeps):
            moved = 0.0
            for j in range(n):
                slope = projected[line, j]
                for k in range(n):
                    slope -= gram[j, k] * x[line, k]
                new = max(0.0, x[line, j] + slope / gram[j, j])
                moved = max(moved, abs(new - x[line, j]))
                x[line, j] = new
            if moved < 1e-3:
                break
