"""The documentation site: generated pages, links, and the text version for language models."""
