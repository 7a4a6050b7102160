"""Causes that move a score or a ranking: parts of an experiment move the methods together, or against one another."""
