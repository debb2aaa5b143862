"""Scikit-learn faces of the protocols."""
