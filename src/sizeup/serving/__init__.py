"""Times of language models that a serving engine runs on a cluster: steps, TPOT and TTFT."""
