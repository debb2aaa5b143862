"""A document for the privacy officer who signs for a run: `document.officer_document` writes it.

It has the parts that a data protection impact assessment and a model card need, in plain words.
Every statement names the file that it comes from, and the document lists each file's SHA-256, so
that whoever signs can check what was signed for.
"""
