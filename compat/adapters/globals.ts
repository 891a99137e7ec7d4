// Node 20 has no WebSocket, which Cloudflare's package reads the constants of when it loads.
globalThis.WebSocket ??= class {} as unknown as typeof WebSocket;
