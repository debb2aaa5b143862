"""The tables that parties hold.

Public facts: `schema`, and `agree` to compare the parties' schemas. One raw column: `cells` and
`categories`. A table that a user passes: `names`, `opening`, `frames`, and `describe` if there is
no schema yet. Rows in batches: `columns` and `table`. External tables: `readers`, based on
`files` (with `csv_text`) and `databases` (with `queries`). For simulation: `deal`.
"""
