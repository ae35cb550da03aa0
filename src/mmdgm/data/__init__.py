"""Data: sources, splits, and the batches that the rest of the library sees."""
