/**
 * The number of groups of keys in a store. Each group is on one shard of a Cluster, so that a script can also access
 * its index.
 */
const TAGS = 64;

/** Computes CRC16 (XMODEM), which Redis Cluster uses to place keys. */
function crc16(text: string): number {
  let crc = 0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc;
}

/** Returns the slot of a hash tag, 0 to 16,383. */
export function slotOf(tag: string): number {
  return crc16(tag) % 16_384;
}

let tags: readonly string[] | undefined;

/** Returns 64 hash tags whose slots are spread evenly: number n is in slots 256 n to 256 n + 255. */
export function allTags(): readonly string[] {
  tags ??= Array.from({ length: TAGS }, (_, group) => {
    for (let attempt = 0; ; attempt++) {
      const tag = `${group.toString(36)}${attempt === 0 ? '' : attempt.toString(36)}`;
      if (slotOf(tag) >> 8 === group) return tag;
    }
  });
  return tags;
}

/** Returns the hash tag of a key. */
export function tagOf(key: string): string {
  return allTags()[slotOf(key) >> 8] as string;
}
