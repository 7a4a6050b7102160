"""What decides a ranking: how far each part of an experiment moves the methods together, and against one another."""
