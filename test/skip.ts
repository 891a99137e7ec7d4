/**
 * Options of a test that is skipped under a condition: they say why, and `npm run trace` asks for that.
 *
 * ```ts
 * describe.skipIf(!redis)('the Redis store', because('needs Redis'), () => { … });
 * ```
 */
export function because(skipReason: string): { readonly meta: { readonly skipReason: string } } {
  return { meta: { skipReason } };
}
