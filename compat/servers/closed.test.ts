import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { CLOSED, COLUMNS, type Column } from './frameworks.ts';
import { work } from './places.ts';
import { keep, versionsOf } from './results.ts';
import { runToEnd } from './start.ts';

const text = (path: string) => readFileSync(new URL(`node_modules/${path}`, import.meta.url), 'utf8');

/** What shows that nobody can reach the servers. */
const PROOFS: Record<(typeof CLOSED)[number]['name'], () => Promise<void>> = {
  async 'mcp-use'() {
    writeFileSync(
      `${work}mcp-use.mjs`,
      `import { MCPServer } from 'mcp-use';
      import { createValise } from 'mcp-valise/server';
      const valise = createValise({ name: 'notes', keys: 'ephemeral' });
      try { valise.install(new MCPServer({ name: 'notes', version: '1.0.0' })); }
      catch ({ code }) { console.log('refused:', code); }
      process.exit();`,
    );
    const node = process.env['COMPAT_NODE22'] ?? process.execPath;
    const said = await runToEnd(node, ['mcp-use.mjs'], work, { MCP_USE_ANONYMIZED_TELEMETRY: 'false' });
    expect(said).toContain('refused: invalid-argument');
    const source = text('mcp-use/dist/index-node.js');
    expect(source).not.toMatch(/from\s*["']@modelcontextprotocol\/server["']/);
    expect(source).toMatch(/#buildSdkServer\(ctx\)/);
  },
  async xmcp() {
    const { default: exported } = (await import('xmcp')) as unknown as { default: object };
    expect(Object.keys(exported).filter((name) => /server|handler|factory/i.test(name))).toEqual([]);
    expect(text('xmcp/dist/runtime/http.js')).not.toMatch(/(from|require\()\s*["']@modelcontextprotocol\//);
  },
};

it.each(CLOSED)('$name lets nobody reach the servers that it makes', async ({ name, packages, reason }) => {
  await PROOFS[name]();
  const cells = Object.fromEntries(Object.keys(COLUMNS).map((column) => [column, reason]));
  keep({ name, versions: versionsOf(packages), cells: cells as Record<Column, string> });
});
