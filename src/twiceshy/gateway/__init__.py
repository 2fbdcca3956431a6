"""The gateway: the OpenAI, Anthropic, MCP and plain HTTP faces of one boundary, for agents in any language (semantics.md §10.3).

A replay listens on 127.0.0.1 inside the candidate's namespaces and answers from the case, through the same `cross(call) -> answer` as a Python candidate:

    POST /v1/chat/completions, /v1/responses, /v1/messages    the frozen model, whole or streamed in the recorded chunks
    POST /v1/embeddings, GET /v1/models
    POST /mcp (streamable HTTP), python -m twiceshy.gateway.mcp_stdio    the case's tools
    POST /tools/{name}, GET /clock

Every request bears the run's token. A miss is 409 with `x-should-retry: false`, which costs a client exactly one request, and ends the run; so does a request that is
malformed, cut off, without its token (401) or for no face of ours. None is forgotten: each is a passage, a note in the journal, or the end.

A model that runs live is asked by the parent (semantics.md §6.3): the gateway sends the request on to a door, a socket that listens in the candidate's namespaces and is
served outside of them, with a token that the command does not have. A Python candidate's own clients reach the same door from within a live model's passage.

Written by hand over http.server: the server is forked with each trial, so it must start in milliseconds and import nothing that a candidate's process
would not need. The `mcp` package costs a second and a half to import; of its protocol a case's tools need five methods.
"""
