import { isObject, type JsonObject } from '../json.ts';
import { isEmpty } from './dict.ts';
import { CARRIERS, type Carrier, NAMES } from './names.ts';

/**
 * How far the end of a session reaches: every instance at once, or only the process that ended it, so that others, and
 * the same one after a restart, take the session until it expires.
 */
export type Revocation = 'everywhere' | 'expiry';

/** What one side of a connection can do, as it announces it. */
export interface Families {
  /** The jar. */
  readonly state?: boolean;
  /** Data-layer sessions. */
  readonly sessions?: boolean;
  /** How far the deletion and revocation of a session reach; a server with sessions says so. */
  readonly revocation?: Revocation;
  /** Rounds, and how their context may travel, best liked first. */
  readonly rounds?: readonly Carrier[];
  /** Whether a client wants to hear until when its questions can be answered. */
  readonly expiry?: boolean;
}

/** {@link Families} of a peer, as read from its capabilities. */
export type Announced = Required<Omit<Families, 'revocation' | 'expiry'>> &
  Pick<Families, 'revocation' | 'expiry'>;

/** Identifiers and places are the same in both eras: a client announces before it knows the server's. */
const { capability, extension } = NAMES.modern;
const NONE: Announced = Object.freeze({ state: false, sessions: false, rounds: [] });

/**
 * Capabilities that tell a server what this client can do: each family in the place its draft names, under
 * `extensions`, and once more under `experimental` for servers that know only that.
 *
 * @example
 * ```ts
 * mergeCapabilities(capabilities, announceClient({ state: true, rounds: CARRIERS }));
 * ```
 */
export function announceClient(families: Families): JsonObject {
  const extensions = extensionsOf(families);
  if (isEmpty(extensions)) return {};
  return {
    ...(families.state ? { [capability.state]: {} } : {}),
    experimental: { ...(families.sessions ? { [capability.sessions]: {} } : {}), ...extensions },
    extensions,
  };
}

/** Capabilities that tell a client what this server can do. */
export function announceServer(families: Families): JsonObject {
  const extensions = extensionsOf(families);
  if (isEmpty(extensions)) return {};
  return {
    ...(families.sessions ? { [capability.sessions]: {} } : {}),
    experimental: extensions,
    extensions,
  };
}

function extensionsOf({ state, sessions, revocation, rounds, expiry }: Families): JsonObject {
  return {
    ...(state ? { [extension.state]: {} } : {}),
    ...(sessions ? { [extension.sessions]: revocation ? { revocation } : {} } : {}),
    ...(rounds || expiry
      ? { [extension.rounds]: { ...(rounds && { carriers: rounds }), ...(expiry && { expiry }) } }
      : {}),
  };
}

/** Which families a peer has, from any of the places it may say so. Read the raw message: SDK getters drop some. */
export function readAnnounced(capabilities: unknown): Announced {
  if (!isObject(capabilities)) return NONE;
  const experimental = isObject(capabilities.experimental) ? capabilities.experimental : NOTHING;
  const extensions = isObject(capabilities.extensions) ? capabilities.extensions : NOTHING;
  const state = named(extension.state, extensions, experimental);
  const sessions = named(extension.sessions, extensions, experimental);
  const rounds = named(extension.rounds, extensions, experimental);
  const revocation = revocationOf(sessions);
  return {
    state: isObject(capabilities[capability.state]) || isObject(state),
    sessions:
      isObject(capabilities[capability.sessions]) ||
      isObject(experimental[capability.sessions]) ||
      isObject(sessions),
    rounds: carriersOf(rounds),
    ...(revocation && { revocation }),
    ...(isObject(rounds) && rounds.expiry === true && { expiry: true }),
  };
}

const NOTHING: Readonly<Record<string, unknown>> = Object.freeze({});

function named(id: string, extensions: typeof NOTHING, experimental: typeof NOTHING): unknown {
  return isObject(extensions[id]) ? extensions[id] : experimental[id];
}

/** True where a peer names an extension of ours: then it reads ours under `extensions`, and needs no other place. */
export function knowsExtensions(capabilities: unknown): boolean {
  if (!isObject(capabilities)) return false;
  return [capabilities.extensions, capabilities.experimental].some(
    (place) => isObject(place) && Object.values(extension).some((id) => Object.hasOwn(place, id)),
  );
}

/**
 * Capabilities as a server keeps them: of `experimental`, only what announces a family and is not under `extensions` as
 * well. The rest can be as long as a client likes, and no server of ours reads it.
 */
export function keptCapabilities({ experimental, ...own }: JsonObject): JsonObject {
  if (!isObject(experimental)) return own;
  const extensions = isObject(own['extensions']) ? own['extensions'] : NOTHING;
  const kept: Record<string, JsonObject[string]> = {};
  for (const id of Object.values(extension)) {
    if (isObject(experimental[id]) && !isObject(extensions[id])) kept[id] = experimental[id] as JsonObject;
  }
  if (isObject(experimental[capability.sessions]) && !isObject(extensions[extension.sessions]))
    kept[capability.sessions] = {};
  return isEmpty(kept) ? own : { ...own, experimental: kept };
}

/** The part of capabilities that announces families: what is left of them where the whole is too long to travel. */
export function announcedIn(capabilities: JsonObject): JsonObject {
  const { state, sessions, extensions, experimental } = keptCapabilities(capabilities);
  const ours: Record<string, JsonObject[string]> = {};
  for (const id of Object.values(extension)) {
    if (isObject(extensions) && isObject(extensions[id])) ours[id] = extensions[id] as JsonObject;
  }
  return {
    ...(isObject(state) && { state: {} }),
    ...(isObject(sessions) && { sessions: {} }),
    ...(!isEmpty(ours) && { extensions: ours }),
    ...(experimental !== undefined && { experimental }),
  };
}

function revocationOf(settings: unknown): Revocation | undefined {
  const said = isObject(settings) ? settings.revocation : undefined;
  return said === 'everywhere' || said === 'expiry' ? said : undefined;
}

function carriersOf(settings: unknown): readonly Carrier[] {
  if (!isObject(settings) || !Array.isArray(settings.carriers)) return NONE.rounds;
  const listed: readonly unknown[] = settings.carriers.slice(0, 16);
  // Through a set, since the peer's order counts and a carrier named twice counts once.
  return [...new Set(listed.filter((c): c is Carrier => CARRIERS.includes(c as Carrier)))];
}

/** Adds a fragment to capabilities that an author wrote. What the author wrote stays as it is. */
export function mergeCapabilities(own: JsonObject | undefined, fragment: JsonObject): JsonObject {
  const merged: Record<string, JsonObject[string]> = { ...own };
  for (const [name, value] of Object.entries(fragment)) {
    const present = merged[name];
    if (present === undefined) merged[name] = value;
    else if (isObject(present) && isObject(value)) {
      merged[name] = mergeCapabilities(present as JsonObject, value as JsonObject);
    }
  }
  return merged;
}
