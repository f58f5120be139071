"""A stand-in for the log density: learnt from gradients, and cheap to draw from.

`terms` is the family and its fit, `learn` finds which terms it needs, `marginal` draws from it, `batches` goes with it to the posterior.
"""
