"""Results enter; text, JSON and pages leave."""
