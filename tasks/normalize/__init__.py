"""Join spans into traces and crossings, with volatile values out and replay requirements graded."""
