"""The chains on their way: from starts through rounds to late states, with snapshots, and the same on disk.

`machine` is how programs are compiled and run; here are the statistics' needs: what is learnt, kept and saved on the way. This room
imports `moves`, `plan` and what comes before them. Begin with `walk`; `checkpoint` lets a killed walk go on.
"""
