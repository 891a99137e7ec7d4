import { isObject, type JsonObject } from '../core/json.ts';
import type { Params, RpcError } from '../core/message.ts';
import { NAMES } from './names.ts';
import { readSession } from './session.ts';
import { sessionMethod } from './session-methods.ts';

/** A family that is announced as an extension. */
export type Family = 'state' | 'sessions' | 'rounds' | 'idempotency';

/**
 * The versions of each extension that this release supports: one per major version, with its highest minor version, in
 * ascending order.
 */
export const EXTENSION_VERSIONS: Readonly<Record<Family, readonly [string, ...string[]]>> = {
  state: ['1.0.0'],
  sessions: ['1.0.0'],
  rounds: ['1.0.0'],
  idempotency: ['1.0.0'],
};

/** The version of an extension whose settings name none. */
export const FIRST_VERSION = '1.0.0';

/** The code that the draft on extension versions defines for a major version that the server does not support. */
const UNSUPPORTED_EXTENSION_VERSION = -32005;

const VERSION = /^(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(?:0|[1-9]\d{0,5})$/;
const MAX_VERSIONS = 16;

/** Returns the settings with which a client names the version that it uses. */
export function clientVersion(family: Family): JsonObject {
  return { version: EXTENSION_VERSIONS[family].at(-1) ?? FIRST_VERSION };
}

/** Returns the settings with which a server names the versions that it supports. */
export function serverVersions(family: Family): JsonObject {
  return { versions: EXTENSION_VERSIONS[family] };
}

/** Returns the versions that the settings of a peer name: the one of a client, or those of a server. */
export function versionsIn(settings: unknown): readonly string[] {
  if (!isObject(settings)) return [FIRST_VERSION];
  const { version, versions } = settings;
  if (Array.isArray(versions)) return versions.slice(0, MAX_VERSIONS).map(shown);
  return version === undefined && versions === undefined ? [FIRST_VERSION] : [shown(version ?? versions)];
}

/**
 * Returns the version that two peers use, as `MAJOR.MINOR`: the highest major version that both support, and in it the
 * lower of their minor versions. Returns undefined if they share no major version.
 */
export function agreedVersion(ours: readonly string[], theirs: readonly string[]): string | undefined {
  let agreed: readonly [major: number, minor: number] | undefined;
  for (const [major, minor] of ours.flatMap(parsed)) {
    for (const [theirMajor, theirMinor] of theirs.flatMap(parsed)) {
      if (theirMajor === major && (!agreed || major > agreed[0]))
        agreed = [major, Math.min(minor, theirMinor)];
    }
  }
  return agreed?.join('.');
}

/** Whether this release can use an object that was made with a version, `MAJOR.MINOR`. Absent means 1.0. */
export function isUsable(family: Family, version: unknown): boolean {
  if (version === undefined) return true;
  return (
    typeof version === 'string' && agreedVersion(EXTENSION_VERSIONS[family], [`${version}.0`]) !== undefined
  );
}

/** Returns the families that a request uses, so that the server must support their versions. */
export function familiesUsed(method: string, params: Params | undefined): readonly Family[] {
  const meta = params?._meta;
  const { key, session, server } = { ...NAMES.legacy.state, key: NAMES.modern.state.key };
  return [
    ...(sessionMethod(method) || readSession(meta) !== undefined ? (['sessions'] as const) : []),
    ...(isObject(meta) && [key, session, server].some((name) => name in meta) ? (['state'] as const) : []),
  ];
}

/** Returns the error for a request that uses families in versions that the server does not support. */
export function unsupportedVersions(requested: Partial<Readonly<Record<Family, string>>>): RpcError {
  const families = Object.entries(requested) as [Family, string][];
  const extensions = families.map(([family, version]) => [
    NAMES.modern.extension[family],
    { requested: version, supported: EXTENSION_VERSIONS[family] },
  ]);
  const names = families.map(([family, version]) => `${NAMES.modern.extension[family]} ${version}`);
  return {
    code: UNSUPPORTED_EXTENSION_VERSION,
    message: `Unsupported extension version: ${names.join(', ')}`,
    data: { extensions: Object.fromEntries(extensions) },
  };
}

function parsed(version: string): readonly (readonly [major: number, minor: number])[] {
  const [, major, minor] = VERSION.exec(version) ?? [];
  return major === undefined ? [] : [[Number(major), Number(minor)]];
}

/** Returns a version as a peer wrote it, shortened, since it may appear in messages. */
function shown(version: unknown): string {
  return typeof version === 'string' ? version.slice(0, 32) : 'malformed';
}
