"""What the chains' states say: the user's questions, intervals of movement, checks of the run, and a verdict for each row.

`asking` turns functionals into `questions`, `judgement` answers them, `checks` say whether to believe it, `outcome` gives the
verdicts. This room imports `chains` and what comes before it. Begin with `judgement`.
"""
