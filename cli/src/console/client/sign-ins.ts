import type { ClientValise } from 'mcp-valise/client';
import { type Revoked, redactUrls } from 'mcp-valise/internal';
import type { Feed } from '../feed.ts';
import { type Routes, text } from '../routes.ts';

/** Routes of the screen "Sign-ins". No answer contains a token. */
export function signInRoutes(valise: ClientValise, feed: Feed): Routes {
  const changed = (): void => feed.changed('sign-ins', 'servers', 'state', 'questions');
  return {
    'GET sign-ins': {
      async run() {
        const connections = await valise.connections.list();
        return {
          signIns: connections
            .filter(({ signedIn, issuer }) => signedIn || issuer !== undefined)
            .map(({ target, issuer, ...rest }) => ({
              ...rest,
              id: target,
              server: redactUrls(target),
              issuer: issuer && redactUrls(issuer),
            })),
        };
      },
    },
    'POST sign-ins/refresh': {
      writes: true,
      async run(input) {
        try {
          return { refreshed: await valise.connections.refresh(text(input, 'id')) };
        } finally {
          changed();
        }
      },
    },
    'POST sign-ins/sign-out': {
      writes: true,
      async run(input) {
        let tokens: Revoked = 'none';
        const onRevoked = (how: Revoked): void => {
          tokens = how;
        };
        const forgotten = await valise.connections.logout(text(input, 'id'), { onRevoked });
        changed();
        return { forgotten, tokens };
      },
    },
  };
}
