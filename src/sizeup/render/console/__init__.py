"""Results for people, on a terminal."""
