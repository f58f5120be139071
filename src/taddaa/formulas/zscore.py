"""How surely a mean differs from zero."""

import numpy as np


def mean_z(values: np.ndarray) -> np.ndarray:
    """Mean over chains in standard errors, for each column; 0 where nothing varies."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(np.where(error > 0, values.mean(axis=0) / error, 0.0))
