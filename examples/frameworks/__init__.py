"""The refund agent in other people's frameworks: the same tools, guard and scripted model, each put behind its boundary by an adapter."""
