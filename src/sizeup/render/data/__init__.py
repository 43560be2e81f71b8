"""Results for programs: plain data, JSON, CSV, data frames, and what CI systems read."""
