"""What trees over columns have in common, whatever they are: matching, levels, labels, prediction.

Parties hold different columns of the same rows, and one of them the labels.
"""
