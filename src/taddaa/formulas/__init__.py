"""Formulas that know nothing of names, targets or chains: distributions, intervals, correlations, tails.

Plain NumPy and SciPy in float64 on the host, arrays in and arrays out, each tested against an independent oracle. This room imports
nothing of the package. Begin with `interval`: the confidence intervals of section 3, and the bound that follows from one.
"""
