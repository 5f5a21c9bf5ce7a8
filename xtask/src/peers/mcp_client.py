"""The official Python client of the Model Context Protocol, against a server that is named on the command line.

Prints one JSON object per line: the server, its tools, then the result of each call that is read from standard input.
"""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main():
    calls = json.load(sys.stdin)
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with stdio_client(server) as (reader, writer):
        async with ClientSession(reader, writer) as session:
            await session.initialize()
            tools = await session.list_tools()
            print(json.dumps({"tools": [tool.name for tool in tools.tools]}))
            for call in calls:
                try:
                    result = await session.call_tool(call["name"], call["arguments"])
                    text = "".join(part.text for part in result.content)
                    failed = getattr(result, "is_error", None)
                    failed = getattr(result, "isError", None) if failed is None else failed
                    print(json.dumps({"text": text, "failed": bool(failed)}))
                except Exception as why:
                    print(json.dumps({"refused": str(why)}))


asyncio.run(asyncio.wait_for(main(), 60))
