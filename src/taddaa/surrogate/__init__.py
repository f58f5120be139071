"""A stand-in for the log density: learnt from gradients, and cheap to draw from.

Begin with `batches`, which goes with it to the posterior; `terms` is the family and its fit, `learn` finds which terms it needs, `marginal`
draws from it, and `recentre` writes hierarchies so that terms can say them.
"""
