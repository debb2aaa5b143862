"""Reports of jobs: as text, as a page, as plots, and the models that go with them."""
