import { createHash, webcrypto } from 'node:crypto';
import { ValiseError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { loadSdk, type Major } from '../major.ts';
import type { CredentialKeeper } from './credentials.ts';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256' };

/** SDK v2's `DpopSession`. The type is `never` so that our declarations do not depend on an optional peer. */
export type DpopSigner = never;

/**
 * Returns a function that resolves to the signer for the key that the tokens are bound to (RFC 9449). The key is created on
 * first use and stored with the tokens, because the next process cannot use a bound refresh token without it.
 */
export function boundTo(keeper: Pick<CredentialKeeper, 'change'>, major: Major): () => Promise<DpopSigner> {
  if (major === 'v1')
    throw new ValiseError(
      'invalid-argument',
      'The option dpop needs v2 of the SDK, which signs the requests.',
      {
        next: 'Run: npm install @modelcontextprotocol/client. Or leave the option out.',
      },
    );
  let session: Promise<DpopSigner> | undefined;
  return () => (session ??= sessionOf(keeper));
}

async function sessionOf(keeper: Pick<CredentialKeeper, 'change'>): Promise<DpopSigner> {
  const { DpopSession } = await loadSdk(
    '@modelcontextprotocol/client',
    () => import('@modelcontextprotocol/client'),
  );
  const made = await newKey();
  const { dpop = made } = await keeper.change((now) => (now.dpop ? undefined : { ...now, dpop: made }));
  return (await DpopSession.create({ keyPair: await keyPairOf(dpop) })) as DpopSigner;
}

async function newKey(): Promise<JsonObject> {
  const { privateKey } = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const { kty, crv, x, y, d } = await webcrypto.subtle.exportKey('jwk', privateKey);
  return { kty, crv, x, y, d } as JsonObject;
}

async function keyPairOf({ kty, crv, x, y, d }: JsonObject) {
  const publicJwk = { kty, crv, x, y } as { kty: string; crv: string; x: string; y: string };
  const load = (jwk: object, usage: 'sign' | 'verify') =>
    webcrypto.subtle.importKey('jwk', jwk, ALGORITHM, usage === 'verify', [usage]);
  return {
    privateKey: (await load({ ...publicJwk, d }, 'sign')) as CryptoKey,
    publicKey: (await load(publicJwk, 'verify')) as CryptoKey,
    publicJwk,
    // RFC 7638 requires these members in the order of their names.
    thumbprint: createHash('sha256').update(JSON.stringify({ crv, kty, x, y })).digest('base64url'),
    alg: 'ES256' as const,
  };
}
