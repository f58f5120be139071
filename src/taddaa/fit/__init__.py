"""Fits."""

from .ascent import FitProgress
from .methods import fullrank, laplace, meanfield, pathfinder, student_t
from .result import Fit, Restart

__all__ = ["Fit", "FitProgress", "Restart", "fullrank", "laplace", "meanfield", "pathfinder", "student_t"]
