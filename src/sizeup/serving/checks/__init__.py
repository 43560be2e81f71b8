"""A model and how it is served enter; limits with their amounts and remedies leave."""
