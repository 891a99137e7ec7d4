import { describe, it } from 'vitest';
import { storeContract } from '../../src/store/contract.ts';
import { openRedisStore } from '../../src/store/redis.ts';
import { service, uniqueName } from '../services.ts';

const url = (await service('redis')) as string;

describe.skipIf(!url)('the Redis store', () => {
  storeContract(
    () => {
      const namespace = uniqueName();
      return {
        open: () => openRedisStore(url, { namespace }),
        process: {
          module: new URL('../../src/store/redis.ts', import.meta.url),
          export: 'openRedisStore',
          args: [url, { namespace }],
        },
      };
    },
    { describe, it },
    { name: 'redis', execArgv: ['--import', 'tsx'] },
  );
});
