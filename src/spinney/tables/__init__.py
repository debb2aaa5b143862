"""What a party holds.

Public facts: `schema`, and `agree` where parties' schemas differ. One column as it came: `cells`
and `categories`. A table that a user passes: `names`, `opening`, `frames`, and `describe` where
there is no schema yet. Rows in batches: `columns` and `table`. Tables elsewhere: `readers`, over
`files` (with `csv_text`) and `databases` (with `queries`). For simulation: `deal`.
"""
