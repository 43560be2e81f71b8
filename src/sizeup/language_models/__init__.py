"""Memory, capacity and layouts of language models, from their configuration alone."""
