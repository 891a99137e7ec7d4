import type { Outcome } from './types.ts';
import { Badge, JsonTree, Text } from './ui.tsx';

/** Pictures that a browser shows without running anything. */
const PICTURES = /^image\/(png|jpeg|gif|webp)$/;
const BASE64 = /^[A-Za-z0-9+/=\s]*$/;

interface Part {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly data?: unknown;
  readonly mimeType?: unknown;
  readonly resource?: { readonly text?: unknown; readonly uri?: unknown };
}

/** The result of a call: text as text, pictures as pictures, everything else as JSON. */
export function Result({ outcome }: { readonly outcome: Outcome }) {
  const { result, error, question } = outcome;
  if (error !== undefined)
    return (
      <div class="result bad" role="status">
        <Badge tone="bad">Failed</Badge>
        <p>
          <Text>{error}</Text>
        </p>
      </div>
    );
  if (question)
    return (
      <div class="result warn" role="status">
        <Badge tone="warn">The server asks</Badge>
        <p>
          <Text>{question.questions.map(({ message }) => message).join(' ')}</Text>
        </p>
        <p>
          <a href="#/questions">Answer it under Questions</a>
        </p>
      </div>
    );
  if (!result) return null;
  const parts = Array.isArray(result.content) ? (result.content as readonly Part[]) : [];
  return (
    <div class={result.isError ? 'result bad' : 'result'} role="status">
      <Badge tone={result.isError ? 'bad' : 'good'}>{result.isError ? 'The tool failed' : 'Done'}</Badge>
      {parts.map((part, at) => (
        <ResultPart key={at} part={part} />
      ))}
      {result.structuredContent !== undefined && (
        <details>
          <summary>Structured content</summary>
          <JsonTree value={result.structuredContent} />
        </details>
      )}
      {parts.length === 0 && result.structuredContent === undefined && <JsonTree value={result} />}
    </div>
  );
}

function ResultPart({ part }: { readonly part: Part }) {
  const text = part.type === 'text' ? part.text : part.resource?.text;
  if (typeof text === 'string')
    return (
      <pre class="result-text">
        <Text>{text}</Text>
      </pre>
    );
  const { data, mimeType } = part;
  if (typeof data === 'string' && PICTURES.test(String(mimeType)) && BASE64.test(data))
    return <img class="result-picture" alt="Returned by the tool" src={`data:${mimeType};base64,${data}`} />;
  return <JsonTree value={part} />;
}
