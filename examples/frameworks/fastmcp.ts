import { FastMCP, FastMCPSession } from 'fastmcp';
import { valise } from './notes.ts';

// FastMCP makes a server for each session, and hands it out only once it is connected, which is too late.
const { connect } = FastMCPSession.prototype;
FastMCPSession.prototype.connect = function (transport) {
  valise.install(this.server);
  return connect.call(this, transport);
};

const server = new FastMCP({ name: 'notes', version: '1.0.0' });

server.addTool({
  name: 'visit',
  description: 'Counts visits.',
  execute: async () => {
    const { server: kept } = valise.jar;
    const visits = Number(kept.get('visits') ?? 0) + 1;
    kept.set('visits', visits);
    return `visit ${visits}`;
  },
});

const order = valise.flow(async (flow) => {
  const size = await flow.choose('size', 'Which size?', ['S', 'M', 'L']);
  return `ordered size ${size}`;
});
server.addTool({
  name: 'order',
  description: 'Orders a shirt, in a size that the user chooses.',
  execute: async (_args, context) => order(context),
});

await server.start({
  transportType: 'httpStream',
  httpStream: { port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' },
});
