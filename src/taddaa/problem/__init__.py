"""What the user brings: a target, an approximation of it, and the quantities to be judged.

Positions are flat vectors everywhere else; names, shapes and transforms live in the target. This room imports `formulas` and
`errors`. Begin with `target`, then `approximation`; a new functional is one class in `functional`.
"""
