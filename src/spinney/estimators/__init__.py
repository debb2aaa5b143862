"""Scikit-learn estimators for the protocols."""
