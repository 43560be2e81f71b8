"""Steps enter; TPOT, TTFT, throughput and cost of a server leave, with intervals."""
