"""Job files as checked values, and the tables they name, for simulated and deployed jobs."""
