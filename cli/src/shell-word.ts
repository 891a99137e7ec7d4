/** A word as a shell reads it back, in quotes only where it needs them. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./…-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
