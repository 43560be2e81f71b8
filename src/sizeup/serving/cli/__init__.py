"""Typed options enter; output and exit codes leave."""
