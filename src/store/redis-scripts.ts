import { createHash } from 'node:crypto';

/** A Lua script: Redis runs it as one step, with nothing in between. */
export interface Script {
  readonly lua: string;
  readonly sha: string;
}

function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') };
}

/*
 * An entry is a string `version SP expiresAt-or-0 SP json` that Redis itself ends when its time is over.
 * Beside it are two sorted sets: `keys`, all keys in the order of their bytes, for lists that are complete;
 * and `ends`, the keys that have an end, by that time. Redis does not tell these when it ends an entry,
 * so every list takes out the dead keys it meets, and every write with a lifetime takes out two.
 */

/** KEYS: entry, keys, ends. ARGV: key, `version SP`, json, milliseconds or '', condition ('', 'absent', or `version SP`). */
export const PUT = script(`
local entry, keys, ends = KEYS[1], KEYS[2], KEYS[3]
local key, version, json, ttl, condition = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if condition == 'absent' then
  if redis.call('EXISTS', entry) == 1 then return 0 end
elseif condition ~= '' then
  if redis.call('GETRANGE', entry, 0, #condition - 1) ~= condition then return 0 end
end
if ttl == '' then
  redis.call('SET', entry, version .. '0 ' .. json)
else
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local past = redis.call('ZRANGEBYSCORE', ends, '-inf', string.format('%.0f', now - 1000), 'LIMIT', 0, 2)
  for _, other in ipairs(past) do
    if redis.call('EXISTS', string.sub(entry, 1, #entry - #key) .. other) == 0 then
      redis.call('ZREM', keys, other)
    end
    redis.call('ZREM', ends, other)
  end
  local expiresAt = string.format('%.0f', now + tonumber(ttl))
  redis.call('SET', entry, version .. expiresAt .. ' ' .. json, 'PX', ttl)
  redis.call('ZADD', ends, expiresAt, key)
end
redis.call('ZADD', keys, 0, key)
return 1`);

/** KEYS: entry, keys, ends. ARGV: key, condition ('' or `version SP`). */
export const DELETE = script(`
local condition = ARGV[2]
if condition ~= '' and redis.call('GETRANGE', KEYS[1], 0, #condition - 1) ~= condition then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
return redis.call('DEL', KEYS[1])`);

/** KEYS: what entries' names start with, keys. ARGV: from, to, count. Answers: the last key looked at or '', then the living. */
export const LIST = script(`
local found = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
if #found == 0 then return {''} end
local entries = {}
for at, key in ipairs(found) do entries[at] = KEYS[1] .. key end
local last = #found == tonumber(ARGV[3]) and found[#found] or ''
local answer = {last}
local allLive = redis.call('EXISTS', unpack(entries)) == #found
for at, key in ipairs(found) do
  if allLive or redis.call('EXISTS', entries[at]) == 1 then answer[#answer + 1] = key
  else redis.call('ZREM', KEYS[2], key) end
end
return answer`);

/**
 * KEYS: lease, fence. ARGV: milliseconds. Answers: the fence, or 0 where another one holds the lease.
 * The fence is the time in microseconds or one more than the last, so it also rises where the server lost its data.
 */
export const LEASE = script(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local time = redis.call('TIME')
local fence = time[1] * 1000000 + time[2]
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if last >= fence then fence = last + 1 end
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[2], text)
redis.call('SET', KEYS[1], text, 'PX', ARGV[1])
return fence`);

/** KEYS: lease. ARGV: fence, milliseconds. */
export const RENEW = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`);

/** KEYS: lease. ARGV: fence. */
export const RELEASE = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`);
