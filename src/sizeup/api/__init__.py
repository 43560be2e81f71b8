"""The public verbs, one module each: a verb takes a model in any form and returns a frozen result."""
