"""Job files: what they say, checked, and the tables they name. Simulated and deployed jobs share it."""
