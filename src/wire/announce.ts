import { isEmpty, isObject, type JsonObject } from '../core/json.ts';
import {
  agreedVersion,
  clientVersion,
  EXTENSION_VERSIONS,
  type Family,
  FIRST_VERSION,
  serverVersions,
  versionsIn,
} from './extension-version.ts';
import { CARRIERS, type Carrier, NAMES } from './names.ts';

/**
 * How far the end of a session reaches. `everywhere`: every instance rejects the session at once. `expiry`: only the
 * process that ended it does; other processes, and the same one after a restart, accept the session until it expires.
 */
export type Revocation = 'everywhere' | 'expiry';

/** The capabilities that one side of a connection announces. */
export interface Families {
  /** Whether it supports the jar. */
  readonly state?: boolean;
  /** Whether it supports data-layer sessions. */
  readonly sessions?: boolean;
  /** How far deleting and revoking a session reaches. A server with sessions announces it. */
  readonly revocation?: Revocation;
  /** The carriers it supports for the context of a round, in order of preference. */
  readonly rounds?: readonly Carrier[];
  /** Whether a client wants to receive the expiry time of questions. */
  readonly expiry?: boolean;
  /** Whether a server has tools whose calls may be repeated with the same key. */
  readonly idempotency?: boolean;
}

/** The {@link Families} of a peer, as read from its capabilities. */
export type Announced = Required<Omit<Families, Extras>> &
  Pick<Families, Extras> & {
    /** The agreed versions that are not 1.0, as `MAJOR.MINOR`. */
    readonly versions?: FamilyVersions;
    /** The families that the peer announced in versions that this release does not support. They count as not announced. */
    readonly unsupported?: FamilyVersions;
  };
type Extras = 'revocation' | 'expiry' | 'idempotency';
type FamilyVersions = Partial<Readonly<Record<Family, string>>>;

/** Both eras use the same identifiers and places, because a client announces before it knows the server's era. */
const { capability, extension } = NAMES.modern;
const NONE: Announced = Object.freeze({ state: false, sessions: false, rounds: [] });

/**
 * Returns the capabilities that tell a server what this client supports. Each family appears in the place its draft
 * names, under `extensions`, and again under `experimental` for servers that read only that.
 *
 * @example
 * ```ts
 * mergeCapabilities(capabilities, announceClient({ state: true, rounds: CARRIERS }));
 * ```
 */
export function announceClient(families: Families): JsonObject {
  const extensions = extensionsOf(families, clientVersion);
  if (isEmpty(extensions)) return {};
  return {
    ...(families.state ? { [capability.state]: {} } : {}),
    experimental: { ...(families.sessions ? { [capability.sessions]: {} } : {}), ...extensions },
    extensions,
  };
}

/** Returns the capabilities that tell a client what this server supports. */
export function announceServer(families: Families): JsonObject {
  const extensions = extensionsOf(families, serverVersions);
  if (isEmpty(extensions)) return {};
  return {
    ...(families.sessions ? { [capability.sessions]: {} } : {}),
    experimental: extensions,
    extensions,
  };
}

function extensionsOf(
  { state, sessions, revocation, rounds, expiry, idempotency }: Families,
  versionOf: (family: Family) => JsonObject,
): JsonObject {
  const settings = { ...(rounds && { carriers: rounds }), ...(expiry && { expiry }) };
  return {
    ...(state ? { [extension.state]: versionOf('state') } : {}),
    ...(sessions
      ? { [extension.sessions]: { ...versionOf('sessions'), ...(revocation && { revocation }) } }
      : {}),
    ...(rounds || expiry ? { [extension.rounds]: { ...versionOf('rounds'), ...settings } } : {}),
    ...(idempotency ? { [extension.idempotency]: versionOf('idempotency') } : {}),
  };
}

/**
 * Reads which families a peer supports, from every place that may announce them. Pass the raw message: SDK getters drop
 * some of these fields.
 */
export function readAnnounced(capabilities: unknown): Announced {
  if (!isObject(capabilities)) return NONE;
  const experimental = isObject(capabilities.experimental) ? capabilities.experimental : NOTHING;
  const extensions = isObject(capabilities.extensions) ? capabilities.extensions : NOTHING;
  const state = named(extension.state, extensions, experimental);
  const sessions = named(extension.sessions, extensions, experimental);
  const rounds = named(extension.rounds, extensions, experimental);
  const idempotency = named(extension.idempotency, extensions, experimental);
  const revocation = revocationOf(sessions);
  let versions: FamilyVersions | undefined;
  let unsupported: FamilyVersions | undefined;
  const announced = { state, sessions, rounds, idempotency };
  for (const family in announced) {
    const settings = announced[family as Family] as { version?: unknown; versions?: unknown } | undefined;
    // The usual case costs nothing more, since this is read with every request.
    if ((settings?.version ?? FIRST_VERSION) === FIRST_VERSION && settings?.versions === undefined) continue;
    const theirs = versionsIn(settings);
    const agreed = agreedVersion(EXTENSION_VERSIONS[family as Family], theirs);
    if (agreed === undefined) unsupported = { ...unsupported, [family]: theirs.join(', ') };
    else if (agreed !== '1.0') versions = { ...versions, [family]: agreed };
  }
  return {
    state: !unsupported?.state && (isObject(capabilities[capability.state]) || isObject(state)),
    sessions:
      !unsupported?.sessions &&
      (isObject(capabilities[capability.sessions]) ||
        isObject(experimental[capability.sessions]) ||
        isObject(sessions)),
    rounds: unsupported?.rounds ? NONE.rounds : carriersOf(rounds),
    ...(revocation && { revocation }),
    ...(!unsupported?.rounds && isObject(rounds) && rounds.expiry === true && { expiry: true }),
    ...(!unsupported?.idempotency && isObject(idempotency) && { idempotency: true }),
    ...(versions && { versions }),
    ...(unsupported && { unsupported }),
  };
}

const NOTHING: Readonly<Record<string, unknown>> = Object.freeze({});

function named(id: string, extensions: typeof NOTHING, experimental: typeof NOTHING): unknown {
  return isObject(extensions[id]) ? extensions[id] : experimental[id];
}

/** Whether a peer names one of our extensions. Such a peer reads ours under `extensions`, so no other place is needed. */
export function knowsExtensions(capabilities: unknown): boolean {
  if (!isObject(capabilities)) return false;
  return [capabilities.extensions, capabilities.experimental].some(
    (place) => isObject(place) && Object.values(extension).some((id) => Object.hasOwn(place, id)),
  );
}

/**
 * Returns the capabilities that a server stores. Of `experimental`, it keeps only the entries that announce a family
 * and are not under `extensions` as well. A client can make the rest arbitrarily long, and Valise servers do not read
 * it.
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

/** Returns the part of the capabilities that announces families, for use when the whole is too long to send. */
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
  // The set keeps the peer's order and drops duplicates.
  return [...new Set(listed.filter((c): c is Carrier => CARRIERS.includes(c as Carrier)))];
}

/** Adds a fragment to capabilities that an author wrote. The author's values take precedence. */
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
