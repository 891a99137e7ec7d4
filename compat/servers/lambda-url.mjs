// What AWS has in front of a Lambda function: takes HTTP requests, and hands the function events as a function URL does
// (payload format 2.0), in one of two processes. `node lambda-url.mjs HANDLER.ts`; the handler decides if its response is
// streamed.
import cluster from 'node:cluster';
import { createServer } from 'node:http';
import { PassThrough } from 'node:stream';
import { pathToFileURL } from 'node:url';
import event from './lambda-event.json' with { type: 'json' };

const TIMEOUT = 4000;
const streamed = Symbol('streamed');

globalThis.awslambda = {
  streamifyResponse: (handler) => Object.assign(handler, { [streamed]: true }),
  HttpResponseStream: {
    from(stream, { statusCode, headers, cookies }) {
      stream.response.writeHead(statusCode, {
        ...headers,
        ...(cookies?.length > 0 && { 'set-cookie': cookies }),
      });
      return stream;
    },
  },
};

if (cluster.isPrimary) for (let count = 0; count < 2; count++) cluster.fork();
else await serve();

async function serve() {
  const { handler } = await import(pathToFileURL(process.argv[2]).href);
  createServer(async (request, response) => {
    // The next request is for another instance.
    response.setHeader('connection', 'close');
    const parts = [];
    for await (const part of request) parts.push(part);
    const { pathname, search } = new URL(request.url, 'http://127.0.0.1');
    const now = new Date();
    const { requestContext } = event;
    const given = {
      ...event,
      rawPath: pathname,
      rawQueryString: search.slice(1),
      headers: request.headers,
      requestContext: {
        ...requestContext,
        http: { ...requestContext.http, method: request.method, path: pathname },
        time: now.toUTCString(),
        timeEpoch: now.getTime(),
      },
      ...(parts.length > 0 && { body: Buffer.concat(parts).toString('base64'), isBase64Encoded: true }),
    };
    const context = { awsRequestId: requestContext.requestId, getRemainingTimeInMillis: () => TIMEOUT };
    const timer = setTimeout(() => {
      if (!response.headersSent) response.writeHead(504);
      response.end();
    }, TIMEOUT);
    try {
      if (handler[streamed]) {
        const stream = Object.assign(new PassThrough(), { response });
        stream.pipe(response);
        await handler(given, stream, context);
      } else {
        const { statusCode, headers, multiValueHeaders, body, isBase64Encoded } = await handler(
          given,
          context,
        );
        if (response.headersSent) return;
        response.writeHead(statusCode, { ...headers, ...multiValueHeaders });
        response.end(Buffer.from(body ?? '', isBase64Encoded ? 'base64' : 'utf8'));
      }
    } catch (error) {
      console.error(error);
      if (!response.headersSent) response.writeHead(502);
      response.end();
    } finally {
      clearTimeout(timer);
    }
  }).listen(Number(process.env.PORT), '127.0.0.1');
}
