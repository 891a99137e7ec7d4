// Clients of `rounds.mjs` that only exchange messages. Each makes one call, answers its two questions, and counts bytes.
const HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
const CALL = {
  name: 'update_work_item',
  arguments: { workItemId: 4522, fields: { 'System.State': 'Resolved' } },
};
const ANSWERS = {
  resolution: { action: 'accept', content: { resolution: 'Duplicate' } },
  duplicateOf: { action: 'accept', content: { duplicateOfId: 4301 } },
};
const answerTo = (params) => (params.message.startsWith('Res') ? ANSWERS.resolution : ANSWERS.duplicateOf);
const capabilities = (...carriers) => ({
  elicitation: {},
  ...(carriers.length > 0 && { extensions: { 'dev.valise/rounds': { carriers } } }),
});

/** Sends one message and returns the HTTP response. `bytes` counts what goes over the wire in both directions. */
function poster(handler, headers) {
  const count = { bytes: 0 };
  return {
    count,
    async post(message) {
      const body = JSON.stringify(message);
      count.bytes += body.length;
      const request = new Request('http://127.0.0.1/mcp', {
        method: 'POST',
        headers: { ...HEADERS, ...headers },
        body,
      });
      return handler.fetch(request, { parsedBody: JSON.parse(body) });
    },
    async messages(response) {
      const text = await response.text();
      count.bytes += text.length;
      return text.startsWith('{')
        ? [JSON.parse(text)]
        : [...text.matchAll(/^data: (.+)$/gm)].map(([, data]) => JSON.parse(data));
    },
  };
}

/** 2026-07-28: the call is made again with each answer. */
export function modern(handler) {
  const { post, messages, count } = poster(handler, {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'update_work_item',
  });
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': capabilities(),
  };
  const run = async () => {
    let params = { ...CALL, _meta };
    for (let id = 1; ; id++) {
      const [{ result }] = await messages(await post({ jsonrpc: '2.0', id, method: 'tools/call', params }));
      if (result.resultType !== 'input_required') return check(result);
      const inputResponses = Object.fromEntries(
        Object.entries(result.inputRequests).map(([key, request]) => [key, answerTo(request.params)]),
      );
      params = { ...CALL, inputResponses, requestState: result.requestState, _meta };
    }
  };
  /** Makes the call and leaves its question open. */
  const open = async () =>
    messages(await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { ...CALL, _meta } }));
  return { run, open, count };
}

async function legacy(handler, ...carriers) {
  const headers = { 'mcp-protocol-version': '2025-11-25' };
  const opened = await poster(handler, headers).post({
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: {
      protocolVersion: '2025-11-25',
      capabilities: capabilities(...carriers),
      clientInfo: { name: 'bench', version: '1.0.0' },
    },
  });
  const session = opened.headers.get('mcp-session-id');
  await opened.text();
  return poster(handler, { ...headers, ...(session && { 'mcp-session-id': session }) });
}

/** Valise's own client in the older era: the state arrives with the question and returns with the answer. */
export async function state(handler) {
  const { post, messages, count } = await legacy(handler, 'state');
  const run = async () => {
    let message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: CALL };
    for (;;) {
      const [answer] = await messages(await post(message));
      if (answer.result) return check(answer.result);
      message = { jsonrpc: '2.0', id: answer.id, state: answer.state, result: answerTo(answer.params) };
    }
  };
  return { run, count };
}

/** The draft carriers: the call is made again with each answer. */
export async function dependent(handler, carrier) {
  const { post, messages, count } = await legacy(handler, carrier);
  const run = async () => {
    let dependent_responses;
    for (let id = 1; ; id++) {
      const retry = dependent_responses && { dependent_responses };
      const [answer] = await messages(
        await post({ jsonrpc: '2.0', id, method: 'tools/call', params: CALL, ...retry }),
      );
      if (answer.result) return check(answer.result);
      const { state: shared, requests } = answer.dependent_requests;
      dependent_responses = {
        ...(shared !== undefined && { state: shared }),
        responses: requests.map(({ state: own, params }) => ({
          ...(own !== undefined && { state: own }),
          result: answerTo(params),
        })),
      };
    }
  };
  return { run, count };
}

/** A stock client: it answers on one connection and receives the result on the stream of its call. */
export async function stock(handler) {
  const { post, count } = await legacy(handler);
  const run = async () => {
    const response = await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: CALL });
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of response.body) {
      text += decoder.decode(chunk, { stream: true });
      count.bytes += chunk.length;
      const events = text.split('\n\n');
      text = events.pop();
      for (const event of events) {
        const data = /^data: (.+)$/m.exec(event)?.[1];
        if (!data) continue;
        const message = JSON.parse(data);
        if (message.result) return check(message.result);
        // Not awaited, because the response to an answer carries no information.
        post({ jsonrpc: '2.0', id: message.id, result: answerTo(message.params) }).then((done) =>
          done.body?.cancel(),
        );
      }
    }
    throw new Error('the stream ended without an answer');
  };
  /** Waits for the question and leaves it open. Returns the stream, which the server holds open meanwhile. */
  const open = async () => {
    const response = await post({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: CALL });
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    for (let text = ''; !text.includes('elicitation/create'); ) {
      text += decoder.decode((await reader.read()).value, { stream: true });
    }
    return reader;
  };
  return { run, open, count };
}

function check({ content }) {
  if (!content[0].text.startsWith('Bug #4522 resolved as Duplicate')) throw new Error(content[0].text);
}
