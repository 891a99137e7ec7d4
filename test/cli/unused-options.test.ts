import { describe, expect, it } from 'vitest';
import { serveExample, VALISE, valise } from './valise.ts';

const memory = ['--store', 'memory:'];
const bug = JSON.stringify({ workItemId: 4522, fields: { 'System.State': 'Resolved' } });

describe('options of valise call that were of no use', () => {
  it.each(['v1', 'v2'])('says which --answer nobody asked for, with SDK %s', async (sdk) => {
    const { url } = await serveExample(['work-items']);
    const call = ['call', url, 'update_work_item', bug, ...memory, '--sdk', sdk];
    const answers = ['--answer', 'resolution=Fixed', '--answer', 'colour=red'];
    const { code, stderr } = await valise([...call, ...answers]);
    expect(code).toBe(0);
    expect(stderr.match(/^.*--answer.*$/gm)).toEqual([
      'valise: --answer colour was not used: the server did not ask for it.',
    ]);
  });

  it('says it once, where the question stays open', async () => {
    const { url } = await serveExample(['work-items']);
    const call = ['call', url, 'update_work_item', bug, ...memory, '--answer', 'colour=red'];
    const { code, stderr } = await valise(call);
    expect(code).toBe(3);
    expect(stderr.match(/colour/g)).toHaveLength(1);
    expect(stderr).toContain('With --store memory: nothing waits for the answer. Call again with --answer');
    expect(stderr).not.toContain('valise pending');
  });

  it('says which header went nowhere, and not what was in it', async () => {
    const target = `stdio:${process.execPath} ${VALISE} example shop --stdio`;
    const header = ['-H', 'Authorization: Bearer s3cret'];
    const { code, stderr } = await valise(['call', target, 'view_cart', ...memory, ...header]);
    expect(code).toBe(0);
    expect(stderr).toContain('valise: --header Authorization was not used: a server that is a command');
    expect(stderr).not.toContain('s3cret');
  });

  it('does not mention them if nothing was tried', async () => {
    const refused = ['--sdk', 'v1', '--era', 'modern', '--resolve', 'x:1:127.0.0.1'];
    const { code, stderr } = await valise(['call', 'http://127.0.0.1:9/mcp', 'x', ...memory, ...refused]);
    expect(code).toBe(2);
    expect(stderr.trim().split('\n')).toEqual([expect.stringContaining('Use --sdk v2.')]);
  });
});
