"""What the chapters of each paper compute and draw: a module a paper, records in, data frames and figures out."""
