"""Losses of a reader's own beside the methods of a study: `page` shows them, in a notebook or as a file."""
