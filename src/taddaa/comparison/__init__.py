"""Several approximations of one target in one table: a diagnosis of each on the same random numbers, and comparators.

`weights` are importance weights at an approximation's draws, `comparators` what others make of them. A side room: it imports the main
path, which never imports it. Begin with `compare`.
"""
