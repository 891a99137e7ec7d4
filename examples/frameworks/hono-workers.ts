// Hono on Cloudflare Workers, around the Worker in workers.ts.
import { Hono } from 'hono';
import worker from './workers.ts';

export { ValiseStoreObject } from './workers.ts';

const app = new Hono();
app.all('/mcp', ({ req }) => worker.fetch(req.raw));

export default app;
