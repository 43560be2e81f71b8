"""What each runtime does with memory, operators, code and time: one folder per runtime."""
