"""What MCP's own client does with ``/mcp``; runs where the ``mcp`` package is.

peer_mcp.py URL
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession  # type: ignore[import-not-found]
from mcp.client.streamable_http import streamablehttp_client  # type: ignore[import-not-found]


async def play(url: str) -> dict[str, Any]:
    """Initialize, list the tools, and count to ten with them."""
    async with streamablehttp_client(url) as (read, write, session_id), ClientSession(read, write) as session:
        begun = await session.initialize()
        tools = (await session.list_tools()).tools
        refused = await session.call_tool("say", {"text": "no number"})
        answers = [await session.call_tool("say", {"text": f"ACTION: {number}"}) for number in range(1, 11)]
        after = (await session.list_tools()).tools
        return {
            "server": begun.serverInfo.name,
            "session_id": session_id(),
            "tools": [tool.name for tool in tools],
            "schema": tools[1].inputSchema,
            "refused": refused.isError,
            "errors": [answer.isError for answer in answers],
            "last": answers[-1].structuredContent,
            "text": json.loads(answers[-1].content[0].text),
            "after": [tool.name for tool in after],
        }


def main() -> None:
    """Play."""
    print(json.dumps(asyncio.run(play(sys.argv[1]))))


if __name__ == "__main__":
    main()
