"""A report as one HTML page that needs no network; `page.page_of` writes it."""
