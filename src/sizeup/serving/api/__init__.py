"""Arguments of the public functions enter; results leave."""
