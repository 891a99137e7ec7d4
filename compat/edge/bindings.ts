// For the compiler alone: the stores take the bindings as Cloudflare declares them.
import type { DurableObjectNamespace, KVNamespace } from '@cloudflare/workers-types';
import type { Store } from 'mcp-valise/store';
import { durableObjectStore } from 'mcp-valise/store/durable-object';
import { workersKvStore } from 'mcp-valise/store/workers-kv';

export const objects = (binding: DurableObjectNamespace): Store => durableObjectStore(binding);

// @ts-expect-error KV is no store: it has neither conditions nor leases.
export const values = (binding: KVNamespace): Store => workersKvStore(binding);
