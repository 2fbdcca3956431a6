"""Agents written in a framework, put behind a boundary in a line or two: pydantic-ai, LangChain and LangGraph, the OpenAI Agents SDK, MCP clients.

Each is a module of its own with an extra of its own, and nothing here is imported before it is asked for:

    from twiceshy.adapters.pydantic_ai import bound          pip install "twiceshy[adapters-pydantic-ai]"
    from twiceshy.adapters.langchain import create_agent     pip install "twiceshy[adapters-langchain]"
    from twiceshy.adapters.openai_agents import bound        pip install "twiceshy[adapters-openai-agents]"
    from twiceshy.adapters.mcp_client import Client          pip install "twiceshy[adapters-mcp]"

An adapter declares every model and tool of the agent while the candidate is built. A tool that can write and that no adapter can reach
is refused there, before anything runs: UncontrolledTool, exit code 4.
"""
