"""An architecture, a cluster and an engine enter; memory, capacity and layouts leave."""
