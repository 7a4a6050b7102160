"""What moves a score, and a ranking: each part of an experiment moves the methods together, and against one another."""
