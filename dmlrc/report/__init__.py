"""Records in, pages out: tables, figures, statistics and verdicts. The library never imports it."""
