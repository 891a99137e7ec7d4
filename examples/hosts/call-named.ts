/** The part of a client that both SDK majors share. */
interface Caller {
  listTools(): Promise<{ tools: { name: string; inputSchema: { properties?: object } }[] }>;
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<object>;
}

/** Calls the tools that a prompt names, as in `Call one,two`. Passes on the latest state handle, as a model would. */
export async function callNamed(client: unknown, prompt: string): Promise<string> {
  const caller = client as Caller;
  const { tools } = await caller.listTools();
  const seen = [prompt];
  for (const name of /Call ([\w,]+)/.exec(prompt)?.[1]?.split(',') ?? []) {
    const tool = tools.find((one) => one.name === name);
    const handle = seen
      .join()
      .match(/vh1_[\w-]{22}/g)
      ?.at(-1);
    const takes = handle !== undefined && 'state_handle' in (tool?.inputSchema.properties ?? {});
    const result = await caller.callTool({ name, arguments: takes ? { state_handle: handle } : {} });
    seen.push(JSON.stringify(result));
  }
  return seen.slice(1).join('\n');
}
