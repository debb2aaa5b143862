"""`spinney check`: what is in a table, what would go wrong, and a job that avoids it.

`columns` judges each column by its profile, `label` the label; `table` joins both into one value;
`draft` writes it as a job file. `spinney simulate FILE` uses the same judgement.
"""
