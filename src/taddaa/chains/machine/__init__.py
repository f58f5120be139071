"""The machine that runs the chains: what is compiled, where it runs, on which random numbers, and what it cost.

`program` is what is compiled, `engine` runs it, `viewer` is what the user sees of states; `threads`, `groups`, `placement` and `noise` say
when, which chains together, on which devices and with which numbers; `meter` counts, `cache` keeps programs. Only this room says vmap,
jit or shard. It imports `moves`,
`problem` and what comes before them, and knows nothing of statistics. Begin with `engine`.
"""
