"""The arithmetic of trees; knows no party, no noise, no network."""
