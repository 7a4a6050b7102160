"""What the one learning rate that all methods share does to their ranking."""
