"""Reasons to trust a run's rows, or not.

A bound needs the error to shrink as the chains move (the paper's Condition 1); a bound of zero means something only if the chains
could have moved. Each check looks for one way in which either fails: one class that holds its name, question, remedy, and what it
silences, and that turns a `Run` into a `Check`. Checks import `formulas` and, for types only, the walk and the judgement, so that a
stored report can be read without JAX. Begin with `check`, then read any one, such as `acceptance`; `registry` lists them all.
"""
