"""A quick approximation for people who have only a target: mean-field, full-rank, Student t, Laplace, Pathfinder.

Each function of `methods` fits from several diverse starts, returns the best fit, and says whether the others came to the same place.
`path` climbs to a mode and finds Gaussians on the way, `family` says what can be fitted, `ascent` maximises the ELBO for all restarts
side by side. A side room that imports `problem` and `errors`. Begin with `methods`.
"""

from .ascent import FitProgress
from .methods import fullrank, laplace, meanfield, pathfinder, student_t
from .result import Fit, Restart

__all__ = ["Fit", "FitProgress", "Restart", "fullrank", "laplace", "meanfield", "pathfinder", "student_t"]
