import { describe, it } from 'vitest';
import { storeContract } from '../../src/store/contract.ts';
import { openPostgresStore } from '../../src/store/postgres.ts';
import { service, uniqueName } from '../services.ts';

const url = (await service('postgres')) as string;

describe.skipIf(!url)('the PostgreSQL store', () => {
  storeContract(
    () => {
      const table = uniqueName();
      return {
        open: () => openPostgresStore(url, { table }),
        process: {
          module: new URL('../../src/store/postgres.ts', import.meta.url),
          export: 'openPostgresStore',
          args: [url, { table }],
        },
      };
    },
    { describe, it },
    { name: 'postgres', execArgv: ['--import', 'tsx'] },
  );
});
