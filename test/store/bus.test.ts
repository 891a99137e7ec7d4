import { describe, it } from 'vitest';
import { busContract } from '../../src/store/contract.ts';
import { openPostgresBus } from '../../src/store/postgres.ts';
import { openRedisBus } from '../../src/store/redis.ts';
import { service } from '../services.ts';

const redis = (await service('redis')) as string;
const postgres = (await service('postgres')) as string;

describe.skipIf(!redis)('the Redis bus', () => {
  busContract(() => openRedisBus(redis), { describe, it }, { name: 'redis' });
});
describe.skipIf(!postgres)('the PostgreSQL bus', () => {
  busContract(() => openPostgresBus(postgres), { describe, it }, { name: 'postgres' });
});
