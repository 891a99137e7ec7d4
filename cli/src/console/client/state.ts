import type { ClientValise, JarEntry, JarFilter } from 'mcp-valise/client';
import { ValiseError } from 'mcp-valise/client';
import { isObject } from 'mcp-valise/internal';
import { createSealer, inspectToken, type Keyring, parseKeys, SealError } from 'mcp-valise/seal';
import { isSealed } from '../../tour/carried.ts';
import type { Feed } from '../feed.ts';
import { type Input, optionalText, type Routes, text } from '../routes.ts';

/** How a sealed value is described without opening it. */
interface SealedShape {
  readonly kid: string;
  readonly bytes: number;
}

/** Routes of the screen "State". */
export function stateRoutes(valise: ClientValise, feed: Feed): Routes {
  const changed = (): void => feed.changed('state', 'servers');
  return {
    'GET state': {
      async run() {
        await valise.jar.refresh();
        const entries = valise.jar.list({ values: true }).map(shapeOf);
        const sessions = (await valise.sessions.kept()).map(({ target, id, ...rest }) => ({
          target,
          id: idOf(id),
          ...rest,
        }));
        return { entries, sessions };
      },
    },
    'GET state/value': {
      run(input) {
        const entry = find(valise, input);
        return isSealed(entry.value)
          ? { sealed: sealedShape(entry.value) }
          : { value: entry.value, text: entry.text };
      },
    },
    // A key that the user gives is used for this answer and not kept. POST, so that it is in no address and no history.
    'POST state/open': {
      run(input) {
        const { value } = find(valise, input);
        if (!isSealed(value)) return { value };
        return { opened: opened(value, parseGiven(text(input, 'keys'))) };
      },
    },
    'POST state/delete': {
      writes: true,
      async run(input) {
        // The page names the entries if it shows only some of them.
        const filters = Array.isArray(input['entries'])
          ? input['entries'].filter(isObject).map(filterOf)
          : [filterOf(input)];
        let deleted = 0;
        for (const filter of filters) deleted += await valise.jar.clear(filter);
        changed();
        return { deleted };
      },
    },
    'POST sessions/forget': {
      writes: true,
      async run(input) {
        const wanted = Array.isArray(input['ids']) ? input['ids'] : [];
        const sessions = (await valise.sessions.kept()).filter(({ id }) => wanted.includes(idOf(id)));
        let forgotten = 0;
        for (const { id } of sessions) if (await valise.sessions.forget(id)) forgotten++;
        changed();
        return { forgotten };
      },
    },
    'POST connections/forget': {
      writes: true,
      async run(input) {
        const forgotten = await valise.connections.forget(text(input, 'id'));
        feed.changed('state', 'servers', 'sign-ins', 'questions');
        return { forgotten };
      },
    },
    'GET state/export': { run: (input) => valise.jar.export(filterOf(input)) },
    'POST state/import': {
      writes: true,
      async run(input) {
        const imported = await valise.jar.import(input['exported']);
        changed();
        return imported;
      },
    },
  };
}

function shapeOf({ value, text: _, ...entry }: JarEntry): object {
  return { ...entry, ...(isSealed(value) && { sealed: sealedShape(value) }) };
}

function sealedShape(token: string): SealedShape {
  const { kid, bytes } = inspectToken(token);
  return { kid, bytes };
}

/** A short form of a session id. Whoever has the whole id may be able to use the session. */
function idOf(id: string): string {
  return id.length <= 12 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}

function filterOf(input: Input): JarFilter {
  const server = optionalText(input, 'server');
  const scope = optionalText(input, 'scope');
  // An empty name is a name.
  const key = typeof input['key'] === 'string' ? input['key'] : undefined;
  return {
    ...(server !== undefined && { server }),
    ...((scope === 'session' || scope === 'server') && { scope }),
    ...(key !== undefined && { key }),
  };
}

function find(valise: ClientValise, input: Input): JarEntry {
  const session = optionalText(input, 'session');
  const account = optionalText(input, 'account');
  const found = valise.jar
    .list({ ...filterOf(input), values: true })
    .find((each) => each.session === session && each.account === account);
  if (found) return found;
  throw new ValiseError('not-found', 'This entry is no longer in the jar.', { next: 'Reload the page.' });
}

function parseGiven(keys: string): Keyring {
  try {
    return parseKeys(keys.trim().replace(/^VALISE_(CLIENT_)?KEYS=/, ''));
  } catch {
    // The original message may quote the key.
    throw new ValiseError('invalid-key', 'This is not a keyring.', {
      next: 'Paste what VALISE_KEYS of the server holds.',
    });
  }
}

function opened(token: string, keys: Keyring): object {
  const { kid } = inspectToken(token);
  try {
    const described = createSealer({ keys }).describe(token);
    const { purpose, audience, issuedAt, expiresAt, hasSubject, isBound } = described;
    const about = { kid, purpose, audience, issuedAt, expiresAt, hasSubject, isBound };
    try {
      return { ...about, value: createSealer({ keys, audience }).open(token, { purpose }) };
    } catch (error) {
      if (!(error instanceof SealError)) throw error;
      return { ...about, locked: error.reason.replaceAll('-', ' ') };
    }
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    throw new ValiseError('seal-rejected', `This keyring does not open what the key ${kid} sealed.`, {
      next: 'Give the keys of the server that set it.',
    });
  }
}
