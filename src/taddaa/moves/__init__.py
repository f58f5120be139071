"""How one chain moves: proposals (`kernel`), pairs of chains (`coupled`), the step size (`adapt`), directions and scales (`metric`,
found by `precondition`).

All is written for one chain, and a new kernel or preconditioner is one class; batching happens in `chains.machine`. This room imports
`problem` and what comes before it. Begin with `kernel`: a proposal and its log correction, with accept and reject written once.
"""
