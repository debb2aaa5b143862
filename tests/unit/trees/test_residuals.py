"""The clip follows how large residuals are, by noisy counts."""

import numpy as np
import pytest

from spinney.trees.residuals import RESIDUAL_CELLS, clip_of, residual_cells


@pytest.mark.parametrize("spread", [0.5, 0.02, 0.0005])
def test_the_clip_is_half_as_much_again_as_nine_tenths_of_residuals_reach(spread):
    random = np.random.RandomState(0)
    residuals = random.standard_normal(8000) * spread
    counts = residual_cells(residuals) + np.rint(random.standard_normal(64) * 40).astype(np.int64)
    wanted = 1.5 * np.quantile(np.abs(residuals), 0.9)
    assert clip_of(counts, 40.0) == pytest.approx(wanted, rel=0.1)


def test_a_record_is_in_one_cell_however_large_its_residual():
    residuals = np.array([0.0, 1e-30, -(2.0**-15), 0.3, -0.3, 2.0, -1e9])
    whole = residual_cells(residuals)
    assert whole.size == RESIDUAL_CELLS
    assert whole.sum() == residuals.size
    for row in range(residuals.size):
        assert (whole - residual_cells(np.delete(residuals, row))).tolist().count(1) == 1
    assert whole[0] == 3
    assert whole[-1] == 2


def test_noise_alone_tells_no_clip():
    assert clip_of(np.full(RESIDUAL_CELLS, 30), 40.0) is None
