/** The path of a tool's program; throws where it cannot be installed. */
export function toolPath(tool: 'conformance' | 'conformance-next' | 'inspector'): Promise<string>;

/** The command that runs a conformance suite: a Node 22, and its program. */
export function conformance(suite: 'conformance' | 'conformance-next'): Promise<readonly [string, string]>;
