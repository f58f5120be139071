"""What is handed back: rows, checks, cost and provenance, in words, as a table, as JSON, as text, as a DataTree.

`build` makes a `Report` of a walk that has been judged; `refit` compares two. A report knows nothing of how chains run, and loads
without JAX. This room imports `verdict` and what comes before it. Begin with `report`.
"""
