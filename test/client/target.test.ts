import { Client } from '@modelcontextprotocol/client';
import { openValise } from 'mcp-valise/client';
import { expect, it } from 'vitest';

it('says what is missing where a client is to be connected to nothing', async () => {
  const valise = await openValise({ store: 'memory:' });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await expect(valise.connect(client, undefined as never)).rejects.toThrow(
    /without a transport.*valise\.connect\(client, transport\)/,
  );
  await valise.close();
});
