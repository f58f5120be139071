"""Pictures and pages of a report.

`series` says what each picture shows; `plot` draws it with matplotlib, `svg` as text for the `page`, whose parts are `sections` and
`markup`. This room imports `report` and what comes before it. Begin with `series`.
"""
