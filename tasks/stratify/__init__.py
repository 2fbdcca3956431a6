"""Sample traces over tool, argument bucket and error code."""
