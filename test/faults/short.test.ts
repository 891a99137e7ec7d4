import { setTimeout as pause } from 'node:timers/promises';
import { describe, it } from 'vitest';
import { noServices, service } from '../services.ts';
import { because } from '../skip.ts';
import { layWire } from '../store/proxy.ts';
import { endsAfterwards, every, openBench } from './bench.ts';

// The most telling rows of the table that `npm run test:soak` measures in full.
describe.skipIf(noServices)('three instances', because('needs Redis, PostgreSQL and nginx'), () => {
  const later = endsAfterwards();

  it.each([
    ['redis', 'Redis'],
    ['postgres', 'PostgreSQL'],
  ] as const)(
    'Instances on %s lose and duplicate nothing while replies of the store are lost and an instance is killed',
    async (kind, engine) => {
      const wire = await layWire((await service(kind)) as string);
      later(wire.close);
      const { fleet, row } = await openBench(engine, { store: wire.url }, later);
      await row('replies are lost, and an instance is killed', async () => {
        await Promise.all([
          every(50, wire.loseReply, 1500),
          pause(500).then(() => fleet.instances[0]?.kill()),
        ]);
        await fleet.instances[0]?.start();
      });
      await fleet.stop();
    },
  );
});
