// The official TypeScript client of the Model Context Protocol, against a server that is named on the command line.
//
// Prints one JSON object per line: the server's tools, then the result of each call that is read from standard input.

import fs from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const calls = JSON.parse(fs.readFileSync(0, "utf8"));
const say = (value) => console.log(JSON.stringify(value));
const client = new Client({ name: "peer", version: "1" });
const transport = new StdioClientTransport({ command: process.argv[2], args: process.argv.slice(3), env: process.env });
await client.connect(transport);
const { tools } = await client.listTools();
say({ tools: tools.map((tool) => tool.name) });
for (const call of calls) {
  try {
    const result = await client.callTool(call);
    say({ text: result.content.map((part) => part.text).join(""), failed: result.isError === true });
  } catch (why) {
    say({ refused: String(why) });
  }
}
await client.close();
