"""Influences on scores and rankings: parts of an experiment move the methods together, and against one another."""
