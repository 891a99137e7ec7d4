// What a conformance suite starts as its client: hands the scenario to the desk that plays it; see desk.ts.
const [desk, url] = process.argv.slice(2);
const { MCP_CONFORMANCE_SCENARIO, MCP_CONFORMANCE_PROTOCOL_VERSION, MCP_CONFORMANCE_CONTEXT } = process.env;

const response = await fetch(desk, {
  method: 'POST',
  body: JSON.stringify({
    url,
    scenario: MCP_CONFORMANCE_SCENARIO,
    version: MCP_CONFORMANCE_PROTOCOL_VERSION,
    context: MCP_CONFORMANCE_CONTEXT,
  }),
});
if (!response.ok) {
  console.error(await response.text());
  process.exitCode = 1;
}
