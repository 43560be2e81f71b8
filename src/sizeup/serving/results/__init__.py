"""Deployments and times enter; frozen results leave."""
