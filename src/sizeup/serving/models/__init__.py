"""Configurations and headers of model files enter; architectures leave: layers, weights, cache and MACs."""
