"""Langfuse: downloads of its UI, dumps of its v2 API, its blob export, and the API itself. The attributes that it received come first, its own columns fill."""
