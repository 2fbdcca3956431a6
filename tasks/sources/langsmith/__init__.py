"""LangSmith: runs as its API lists and its bulk export writes them, the halves that its SDKs post, streams of managed agents, and the API itself."""
