"""Run the catalog against a candidate and turn verdicts into rows."""
