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
 * Beside it are two sorted sets: `entry`, all keys in the order of their bytes, for lists that are complete;
 * and `ends`, the keys that have an end, by that time. Redis does not tell these when it ends an entry,
 * so every list takes out the dead keys it meets, and one in eight writes with a lifetime takes out up to sixteen.
 * The name of an entry is that of the set, a colon, and its key: so the scripts know the one from the other.
 */
const CONDITION = `
if condition == '' then
  redis.call('ZADD', KEYS[2], 0, string.sub(KEYS[1], #KEYS[2] + 2))
elseif condition == 'absent' then
  if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
  redis.call('ZADD', KEYS[2], 0, string.sub(KEYS[1], #KEYS[2] + 2))
elseif redis.call('GETRANGE', KEYS[1], 0, #condition - 1) ~= condition then
  return 0
end`;

/** KEYS: entry, set. ARGV: `version SP 0 SP json`, condition ('', 'absent', or `version SP`). Answers: 1 where it wrote. */
export const PUT = script(`
local condition = ARGV[2]
${CONDITION}
redis.call('SET', KEYS[1], ARGV[1])
return 1`);

/** KEYS: entry, set, ends. ARGV: `version SP`, condition, `SP json`, milliseconds. Answers: 1 where it wrote. */
export const PUT_FOR = script(`
local condition = ARGV[2]
${CONDITION}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expiresAt = string.format('%.0f', now + ARGV[4])
redis.call('SET', KEYS[1], ARGV[1] .. expiresAt .. ARGV[3], 'PX', ARGV[4])
redis.call('ZADD', KEYS[3], expiresAt, string.sub(KEYS[1], #KEYS[2] + 2))
if time[2] % 8 == 0 then
  local past = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now - 1000), 'LIMIT', 0, 16)
  for _, other in ipairs(past) do
    if redis.call('EXISTS', KEYS[2] .. ':' .. other) == 0 then redis.call('ZREM', KEYS[2], other) end
    redis.call('ZREM', KEYS[3], other)
  end
end
return 1`);

/** KEYS: entry, set, ends. ARGV: condition ('' or `version SP`). Answers: 1 where there was one. */
export const DELETE = script(`
local condition = ARGV[1]
if condition ~= '' and redis.call('GETRANGE', KEYS[1], 0, #condition - 1) ~= condition then return 0 end
local key = string.sub(KEYS[1], #KEYS[2] + 2)
redis.call('ZREM', KEYS[2], key)
redis.call('ZREM', KEYS[3], key)
return redis.call('DEL', KEYS[1])`);

/** KEYS: set. ARGV: from, to, count. Answers: the last key looked at or '', then the living. */
export const LIST = script(`
local found = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
if #found == 0 then return {''} end
local entries = {}
for at, key in ipairs(found) do entries[at] = KEYS[1] .. ':' .. key end
local answer = {#found == tonumber(ARGV[3]) and found[#found] or ''}
local allLive = redis.call('EXISTS', unpack(entries)) == #found
for at, key in ipairs(found) do
  if allLive or redis.call('EXISTS', entries[at]) == 1 then answer[#answer + 1] = key
  else redis.call('ZREM', KEYS[1], key) end
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

/** KEYS: lease. ARGV: fence, milliseconds. Answers: 1 where it is still held. */
export const RENEW = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`);

/** KEYS: lease. ARGV: fence. */
export const RELEASE = script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`);
