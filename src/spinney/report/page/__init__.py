"""A report as one page: `page.page_of` writes it, and nothing in it needs a network."""
