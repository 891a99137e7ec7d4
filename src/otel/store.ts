import type { Histogram } from '@opentelemetry/api';
import { ValiseError } from '../errors.ts';
import type { Store } from '../store/types.ts';

const OPERATIONS = ['get', 'put', 'delete', 'list', 'entries', 'scan', 'lease'] as const;

/** Returns a store that measures another one. It has the optional methods of that store, and no others. */
export function measuredStore(store: Store, system: string, duration: Histogram): Store {
  const measured: Record<string, unknown> = { close: () => store.close() };
  for (const operation of OPERATIONS) {
    const own = (store as unknown as Record<string, ((...args: unknown[]) => unknown) | undefined>)[
      operation
    ];
    if (!own) continue;
    const attributes = { 'valise.store.system': system, 'valise.store.operation': operation };
    measured[operation] = async (...args: unknown[]): Promise<unknown> => {
      const start = performance.now();
      let failure: object = {};
      try {
        return await own.apply(store, args);
      } catch (error) {
        failure = { 'error.type': error instanceof ValiseError ? error.code : 'other' };
        throw error;
      } finally {
        duration.record((performance.now() - start) / 1000, { ...attributes, ...failure });
      }
    };
  }
  return measured as unknown as Store;
}
