import type { ClientValise } from 'mcp-valise/client';
import { openAsItIs, redactUrls } from 'mcp-valise/internal';
import { examine } from '../../doctor/examine.ts';
import { type Finding, fail, ok, whatAndFix } from '../../doctor/finding.ts';
import {
  checkKeychain,
  checkKeys,
  checkNode,
  checkPermissions,
  checkSdk,
} from '../../doctor/local-checks.ts';
import { keysIfAny } from '../../options/key-source.ts';
import { type ConnectOptions, storeUrl } from '../../options/options.ts';
import { countKids, keyUses, kidsInStore } from '../keys.ts';
import { optionalText, type Routes } from '../routes.ts';
import { readKept, serversIn, targetFor } from './servers.ts';

/** Settings of {@link healthRoutes}. */
interface HealthSettings {
  readonly options: ConnectOptions;
  readonly given: readonly string[];
  readonly write: boolean;
}

/** Routes of the screen "Health". */
export function healthRoutes(valise: ClientValise, { options, given, write }: HealthSettings): Routes {
  const url = storeUrl(options.store);
  return {
    'GET health': {
      async run() {
        // The doctor writes an entry of its own and deletes it, which a console that only reads does not.
        const findings = write ? await examine(undefined, options) : await readOnlyFindings(url, options);
        return { findings, keys: await keysOf(valise, url, options) };
      },
    },
    'POST health/server': {
      writes: true,
      async run(input) {
        const id = optionalText(input, 'server') ?? '';
        const servers = serversIn(await readKept(valise), given, undefined);
        const target = targetFor(id, servers);
        const { checkTarget } = await import('../../doctor/server-checks.ts');
        return { findings: await checkTarget(target, options) };
      },
    },
  };
}

async function readOnlyFindings(url: string, options: ConnectOptions): Promise<Finding[]> {
  return [
    checkNode(),
    checkSdk(),
    ...checkKeys(options),
    await checkReadable(url),
    ...checkPermissions(url),
    await checkKeychain(),
  ];
}

async function checkReadable(url: string): Promise<Finding> {
  try {
    const store = await openAsItIs(url);
    try {
      await store.list('', { limit: 1 });
    } finally {
      await store.close();
    }
    return ok('store', `${redactUrls(url)} can be read. Writing is not tried without --write.`);
  } catch (error) {
    return fail('store', ...whatAndFix(error, 'Choose another one with --store.'));
  }
}

async function keysOf(valise: ClientValise, url: string, options: ConnectOptions): Promise<object> {
  const values = valise.jar.list({ values: true }).map(({ value }) => value);
  return {
    // Servers seal these. Their keys are known here only if this machine runs the server.
    servers: keyUses(keysIfAny({}, 'VALISE_KEYS'), countKids(values)),
    store: keyUses(keysIfAny(options, 'VALISE_CLIENT_KEYS'), await kidsInStore(url)),
  };
}
