/** A host of the table. Adding one is a row here and a file in examples/hosts. */
export interface Host {
  readonly name: string;
  /** The file in examples/hosts. */
  readonly example: string;
  readonly door: 'transport' | 'options' | 'bridge';
  /** For another major of the same packages: the name that the example imports, and the one that is installed. */
  readonly instead?: readonly [string, string];
  /** Whether the host can put a question of the server to its user; as it comes, and through Valise's door. */
  readonly asks: { readonly stock: boolean; readonly valise: boolean };
}

export const HOSTS: readonly Host[] = [
  {
    name: 'AI SDK 7 (`@ai-sdk/mcp` 2)',
    example: 'ai-sdk',
    door: 'transport',
    asks: { stock: true, valise: true },
  },
  {
    name: 'AI SDK 6 (`@ai-sdk/mcp` 1)',
    example: 'ai-sdk',
    door: 'transport',
    instead: ['@ai-sdk/mcp', '@ai-sdk/mcp-1'],
    asks: { stock: true, valise: true },
  },
  {
    name: 'OpenAI Agents 0.20',
    example: 'openai-agents',
    door: 'options',
    asks: { stock: false, valise: false },
  },
  {
    name: 'Mastra (`@mastra/mcp` 2)',
    example: 'mastra',
    door: 'options',
    asks: { stock: true, valise: true },
  },
  {
    name: 'LangChain (`@langchain/mcp-adapters` 1)',
    example: 'langchain',
    door: 'transport',
    asks: { stock: false, valise: true },
  },
  {
    name: 'Claude Agent SDK 0.3',
    example: 'claude-agent-sdk',
    door: 'transport',
    // It asks for servers over HTTP and stdio, and not for servers in its process.
    asks: { stock: true, valise: false },
  },
  { name: 'mcp-use 1', example: 'mcp-use', door: 'options', asks: { stock: true, valise: true } },
];
