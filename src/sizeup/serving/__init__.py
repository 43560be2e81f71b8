"""Configurations of language models enter; their memory, times, cost and verdicts on clusters leave."""
