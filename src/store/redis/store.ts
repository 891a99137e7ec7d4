import { createHash } from 'node:crypto';
import { ValiseError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import {
  checkKey,
  checkLayout,
  nextVersion,
  parseEntry,
  toLimit,
  toMilliseconds,
  toText,
  Work,
} from '../driver.ts';
import { type ServerClock, serverClock } from '../kit/clock.ts';
import { mergedPage, pages } from '../page.ts';
import { endOfPrefix, escapeGlob, isVersion, lostReplyError } from '../remote.ts';
import type { Entry, KeyPage, Lease, ListOptions, PutOptions, Store } from '../types.ts';
import type { RedisConnection, Script } from './connection.ts';

/** Throws if the text cannot be the prefix of all keys of a store. */
export function checkNamespace(namespace: string): void {
  if (/^[^{}]{1,200}$/.test(namespace)) return;
  throw new ValiseError('store-invalid', `${JSON.stringify(namespace)} cannot be a namespace.`, {
    next: 'Use 1 to 200 characters without braces.',
  });
}

/** The format of the data in Redis, stored in the namespace. */
const LAYOUT = 3;
/** The number of keys one script reads. All other clients wait while it runs. */
const BATCH = 500;
/** The number of writes of listed entries between two checks of the index for expired entries. */
const PRUNE_EVERY = 16;
const PRUNE = '32';

/**
 * The hash tags of a namespace. Each is in one slot of a Cluster, so that a script can access an entry and its index.
 * Tag n is in the middle of the n-th of 60 equal ranges of slots, which gives 2, 3, 4, 5 or 6 shards the same number
 * of tags. Another list is another format.
 */
const TAGS = (
  'Qm F5 aR MG AV Co Ru sP Go EG TL Um Zd eR IG nC W7 pP Qu PT Rm Cw bR Vm JG EN jC Kf tP XE ' +
  'Pu qP CV Ao cR Bw Sm QT KG Wm vH YE uP Jf kC Aw CN RT Ou rP Su Bo UL ZE Fo gJ HG dR VT zA'
).split(' ');

/** Returns the slot of a hash tag or key, 0 to 16,383: its CRC16 (XMODEM), which Redis Cluster uses to place keys. */
function slotOf(text: string): number {
  let crc = 0;
  for (const byte of Buffer.from(text)) crc = ((crc << 8) & 0xffff) ^ (CRC[(crc >> 8) ^ byte] as number);
  return crc % 16_384;
}

const CRC = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});

/*
 * Names: `NS:{TAG}:e:KEY` is an entry, `NS:{TAG}:e` the index of listed entries, `NS:{TAG}:l:KEY` a lease and
 * `NS:{TAG}:f` the last fence. There are 60 tags, spread evenly over the slots of a Cluster; a key belongs to the tag
 * of its own slot. An entry is a string `version SP expiresAt-or-0 SP json` that Redis expires. Every script may arrive
 * twice: a condition that fails because the new version is already there has succeeded.
 */
function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') };
}

/** KEYS: entry. ARGV: length of the old version, old version and a space, new text, milliseconds or ''. Returns 1 if written. */
const COMPARE_AND_SET = script(`
local key, text = KEYS[1], ARGV[3]
if redis.call('GETRANGE', key, 0, ARGV[1]) == ARGV[2] then
  if ARGV[4] == '' then redis.call('SET', key, text) else redis.call('SET', key, text, 'PX', ARGV[4]) end
  return 1
end
local mine = string.find(text, ' ', 1, true)
return redis.call('GETRANGE', key, 0, mine - 1) == string.sub(text, 1, mine) and 1 or 0`);

/**
 * KEYS: entry, index. ARGV: text, milliseconds or '', 'absent' or '', how many index entries to check or ''. Returns 1
 * if written.
 */
const PUT_LISTED = script(`
local key, index, text = KEYS[1], KEYS[2], ARGV[1]
if ARGV[3] == 'absent' and redis.call('EXISTS', key) == 1 then
  local mine = string.find(text, ' ', 1, true)
  return redis.call('GETRANGE', key, 0, mine - 1) == string.sub(text, 1, mine) and 1 or 0
end
if ARGV[2] == '' then redis.call('SET', key, text) else redis.call('SET', key, text, 'PX', ARGV[2]) end
if redis.call('ZADD', index, 0, string.sub(key, #index + 2)) == 1 and ARGV[4] ~= '' then
  for _, other in ipairs(redis.call('ZRANDMEMBER', index, ARGV[4])) do
    if redis.call('EXISTS', index .. ':' .. other) == 0 then redis.call('ZREM', index, other) end
  end
end
return 1`);

/** KEYS: entry, index. ARGV: version and a space, or ''. Returns 1 if there was one. */
const DELETE = script(`
local condition = ARGV[1]
if condition ~= '' and redis.call('GETRANGE', KEYS[1], 0, #condition - 1) ~= condition then return 0 end
redis.call('ZREM', KEYS[2], string.sub(KEYS[1], #KEYS[2] + 2))
return redis.call('DEL', KEYS[1])`);

/** KEYS: index. ARGV: from, to, count. Returns the last name read or '', then the names that exist. */
const LIST = script(`
local found = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local answer = {#found == tonumber(ARGV[3]) and found[#found] or ''}
for _, key in ipairs(found) do
  if redis.call('EXISTS', KEYS[1] .. ':' .. key) == 1 then answer[#answer + 1] = key
  else redis.call('ZREM', KEYS[1], key) end
end
return answer`);

/**
 * KEYS: lease, last fence. ARGV: milliseconds, holder. Returns the fence, or 0 if another holder has the lease. The
 * fence is the time in microseconds or one more than the last fence, so it increases even after the server lost its
 * data.
 */
const LEASE = script(`
local held = redis.call('GET', KEYS[1])
if held then
  local at = string.find(held, ' ', 1, true)
  return string.sub(held, at + 1) == ARGV[2] and string.sub(held, 1, at - 1) or '0'
end
local time = redis.call('TIME')
local fence = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if last >= fence then fence = last + 1 end
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[2], text)
redis.call('SET', KEYS[1], text .. ' ' .. ARGV[2], 'PX', ARGV[1])
return text`);

/** KEYS: lease. ARGV: fence and holder, milliseconds. Returns 1 if it is still held. */
const RENEW = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`);

/** KEYS: lease. ARGV: fence and holder. */
const RELEASE = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`);

/** A store on a connection to Redis. Entries are spread over the hash tags, each of which has one index. */
export class RedisStore implements Store {
  readonly #connection: RedisConnection;
  readonly #namespace: string;
  readonly #isReplicated: boolean;
  readonly #tags: readonly string[];
  readonly #work = new Work();
  readonly #clock: ServerClock;
  /** What is known of the format: nothing yet, that entries can be read, or that it is stored and entries can be written. */
  #format: 'unknown' | 'checked' | 'stored' = 'unknown';
  #untilPrune = Math.ceil(Math.random() * PRUNE_EVERY);

  constructor(
    connection: RedisConnection,
    namespace: string,
    { isReplicated = false, tags = TAGS }: { isReplicated?: boolean; tags?: readonly string[] } = {},
  ) {
    this.#connection = connection;
    this.#namespace = namespace;
    this.#isReplicated = isReplicated;
    this.#tags = tags;
    this.#clock = serverClock(async () => {
      const [secs, micros] = (await connection.command(['time'], true)) as [string, string];
      return Number(secs) * 1000 + Number(micros) / 1000;
    });
  }

  /**
   * Checks the format of the stored data and upgrades an older one, before the first command. Calls do not share the
   * promise: on Workers, one that another request has begun may never settle.
   */
  async prepare(): Promise<void> {
    const found = await this.#connection.command(['get', this.#layout], true);
    const isCurrent = checkLayout(`namespace ${this.#namespace} in Redis`, found, LAYOUT);
    if (!isCurrent && found !== null) await this.#upgradeTags();
    else if (!isCurrent && Number(await this.#connection.command(['exists', this.#oldIndex], true)) === 1)
      await this.#upgradeIndex();
    if (this.#format !== 'stored') this.#format = isCurrent ? 'stored' : 'checked';
  }

  get(key: string): Promise<Entry | undefined> {
    return this.#run(
      () => {
        checkKey(key);
        return this.#connection.command(['get', this.#entry(key)], true);
      },
      (text) => (typeof text === 'string' ? parseEntry(key, text) : undefined),
    );
  }

  put(key: string, value: Json, options: PutOptions = {}): Promise<string | undefined> {
    return this.#work.run(() => {
      checkKey(key);
      // The value is serialized immediately, because the caller may change it while this waits for the server.
      const json = toText(key, value);
      const { ttl, ifVersion, ifAbsent } = options;
      const life = ttl === undefined ? '' : String(toMilliseconds(ttl));
      const isPossible = ifVersion === undefined || (!ifAbsent && isVersion(ifVersion));
      return isPossible ? this.#put(key, json, life, options) : Promise.resolve(undefined);
    });
  }

  delete(key: string, { ifVersion }: { readonly ifVersion?: string } = {}): Promise<boolean> {
    return this.#run(async () => {
      checkKey(key);
      if (ifVersion !== undefined && !isVersion(ifVersion)) return false;
      const condition = ifVersion === undefined ? '' : `${ifVersion} `;
      const args = ['2', this.#entry(key), this.#index(this.#tagOf(key)), condition];
      return isOne(await this.#connection.script(DELETE, args, false));
    });
  }

  list(prefix: string, options: ListOptions = {}): Promise<KeyPage> {
    return this.#run(async () => {
      const limit = toLimit(options.limit);
      const end = endOfPrefix(prefix);
      const to = end === undefined ? '+' : `(${end}`;
      return mergedPage(this.#tags, startOf(prefix, options.cursor), limit, async (tag, from, count) => {
        const args = ['1', this.#index(tag), from, to, String(Math.min(count, BATCH))];
        const [last, ...keys] = (await this.#connection.script(LIST, args, true)) as [string, ...string[]];
        return { keys, next: last === '' ? undefined : `(${last}` };
      });
    });
  }

  scan(prefix: string, { cursor, limit }: ListOptions = {}): Promise<KeyPage> {
    return this.#run(async () => {
      const { names, ...rest } = await this.#names(`e:${escapeGlob(prefix)}*`, toLimit(limit), cursor);
      const keys = names.flatMap(({ kind, key }) => (kind === 'e' && key?.startsWith(prefix) ? [key] : []));
      return { keys, ...rest };
    });
  }

  lease(key: string, ttl: number): Promise<Lease | undefined> {
    return this.#run(async () => {
      checkKey(key);
      const tag = this.#tagOf(key);
      const name = `${this.#namespace}:{${tag}}:l:${key}`;
      const holder = nextVersion();
      const args = ['2', name, `${this.#namespace}:{${tag}}:f`, String(toMilliseconds(ttl)), holder];
      const fence = Number(await this.#connection.script(LEASE, args, true));
      return fence === 0 ? undefined : this.#held(name, fence, `${fence} ${holder}`);
    });
  }

  close(): Promise<void> {
    return this.#work.close(() => this.#connection.close());
  }

  #run<T, Result = T>(job: () => Promise<T>, read?: (value: T) => Result): Promise<Result> {
    return this.#work.run(() => (this.#format === 'unknown' ? this.prepare().then(job) : job()), read);
  }

  /** Checks the format, and writes it into the namespace before the first entry. */
  async #mark(): Promise<void> {
    if (this.#format === 'unknown') await this.prepare();
    await this.#connection.command(['set', this.#layout, String(LAYOUT), 'NX'], true);
    this.#format = 'stored';
  }

  get #layout(): string {
    return `${this.#namespace}:{layout}`;
  }

  get #oldIndex(): string {
    return `{${this.#namespace}}:entry`;
  }

  /** Moves entries of format 1, which had all keys of a namespace in one slot. Safe to interrupt and to run twice. */
  async #upgradeIndex(): Promise<void> {
    const old = this.#oldIndex;
    const first = ['zrange', old, '0', String(BATCH - 1)];
    for (;;) {
      const keys = (await this.#connection.command(first, true)) as string[];
      if (keys.length === 0) break;
      for (const key of keys) await this.#move(old, key, true);
    }
    await this.#connection.command(['del', `{${this.#namespace}}:ends`], true);
  }

  /** Moves entries of format 2, which had other tags. Its leases expire by themselves. Safe to interrupt and to run twice. */
  async #upgradeTags(): Promise<void> {
    const others: string[] = [];
    for await (const { names } of pages(({ cursor }) => this.#names('*', BATCH, cursor)))
      for (const { tag, kind, key } of names) {
        if (this.#tags.includes(tag)) continue;
        const index = this.#index(tag);
        if (key === undefined) others.push(`${this.#namespace}:{${tag}}:${kind}`);
        else if (kind === 'e') {
          const score = await this.#connection.command(['zscore', index, key], true);
          await this.#move(index, key, score !== null);
        }
      }
    for (const name of others) await this.#connection.command(['del', name], true);
    await this.#connection.command(['set', this.#layout, String(LAYOUT)], true);
  }

  /** Moves one entry of an older format, unless it was moved before, and removes it from its index. */
  async #move(index: string, key: string, isListed: boolean): Promise<void> {
    const name = `${index}:${key}`;
    const text = await this.#connection.command(['get', name], true);
    const left = Number(await this.#connection.command(['pttl', name], true));
    if (typeof text === 'string' && left !== -2)
      await this.#write(key, text, left > 0 ? String(left) : '', { ifAbsent: true, unlisted: !isListed });
    await this.#connection.command(['del', name], true);
    await this.#connection.command(['zrem', index, key], true);
  }

  /** Reads the next names of the namespace that match `pattern` after their tag, from all shards. */
  async #names(pattern: string, count: number, cursor?: string) {
    const page = await this.#connection.scan(`${this.#namespace}:{`, `*}:${pattern}`, count, cursor);
    const names = page.names.flatMap((name) => {
      const [, tag, kind, key] = /^([^}]*)\}:([a-z])(?::(.*))?$/s.exec(name) ?? [];
      return tag === undefined ? [] : [{ tag, kind, key }];
    });
    return { ...page, names };
  }

  async #put(key: string, json: string, life: string, options: PutOptions): Promise<string | undefined> {
    if (this.#format !== 'stored') await this.#mark();
    const version = nextVersion();
    const time = life === '' ? 0 : this.#clock.now();
    const expiresAt =
      life === '' ? 0 : Math.round((typeof time === 'number' ? time : await time) + Number(life));
    const { losses } = this.#connection;
    const isWritten = await this.#write(key, `${version} ${expiresAt} ${json}`, life, options);
    if (isWritten && this.#isReplicated && options.durable)
      await this.#connection.replicated(slotOf(this.#tagOf(key)));
    // The reply may belong to a second delivery: the first may have succeeded and been overwritten since.
    if (!isWritten && this.#connection.losses !== losses) throw lostReplyError('Redis');
    return isWritten ? version : undefined;
  }

  /** Writes the text of an entry. Resolves to whether the conditions held. */
  #write(key: string, text: string, life: string, options: PutOptions): Promise<boolean> {
    const { ifVersion, ifAbsent = false, unlisted = false } = options;
    const name = this.#entry(key);
    if (ifVersion !== undefined) {
      const args = ['1', name, String(ifVersion.length), `${ifVersion} `, text, life];
      return this.#connection.script(COMPARE_AND_SET, args, true).then(isOne);
    }
    if (!unlisted) {
      const prune = --this.#untilPrune > 0 ? '' : PRUNE;
      if (prune !== '') this.#untilPrune = PRUNE_EVERY;
      const args = ['2', name, this.#index(this.#tagOf(key)), text, life, ifAbsent ? 'absent' : '', prune];
      return this.#connection.script(PUT_LISTED, args, true).then(isOne);
    }
    const expiry = life === '' ? [] : ['PX', life];
    const args = ['set', name, text, ...(ifAbsent ? ['NX'] : []), ...expiry];
    return this.#connection
      .command(args, true)
      .then((reply) => reply !== null || this.#isWritten(name, text));
  }

  /** Whether an entry has the version of `text`, because an earlier delivery has written it. */
  async #isWritten(name: string, text: string): Promise<boolean> {
    const mine = text.slice(0, text.indexOf(' ') + 1);
    return (await this.#connection.command(['getrange', name, '0', String(mine.length - 1)], true)) === mine;
  }

  #tagOf(key: string): string {
    return this.#tags[Math.floor((slotOf(key) * this.#tags.length) / 16_384)] as string;
  }

  #entry(key: string): string {
    return `${this.#index(this.#tagOf(key))}:${key}`;
  }

  #index(tag: string): string {
    return `${this.#namespace}:{${tag}}:e`;
  }

  #held(name: string, fence: number, mine: string): Lease {
    return {
      fence,
      renew: (ttl) =>
        this.#work.run(async () => {
          const args = ['1', name, mine, String(toMilliseconds(ttl))];
          return isOne(await this.#connection.script(RENEW, args, true));
        }),
      release: async () => {
        // A lease that cannot be released expires by itself, so the work done under it does not fail.
        await this.#work.run(() => this.#connection.script(RELEASE, ['1', name, mine], true)).catch(() => {});
      },
    };
  }
}

function isOne(reply: unknown): boolean {
  return Number(reply) === 1;
}

function startOf(prefix: string, cursor: string | undefined): string {
  // The comparison uses byte order, which differs from that of JavaScript strings.
  const isWithin = cursor !== undefined && Buffer.compare(Buffer.from(cursor), Buffer.from(prefix)) >= 0;
  return isWithin ? `(${cursor}` : prefix === '' ? '-' : `[${prefix}`;
}
