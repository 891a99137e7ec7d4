import type { Command } from 'commander';

/** Help examples of subcommands, keyed by the words of the command. */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  'jar list': ['valise jar list', 'valise jar list shop.example.com --scope session'],
  'jar show': [
    'valise jar show shop.example.com',
    "valise jar show 'stdio:node server.js' --key theme --json",
  ],
  'jar clear': ['valise jar clear shop.example.com --scope session', 'valise jar clear --yes'],
  'jar export': ['valise jar export > jar.json'],
  'jar import': ['valise jar import jar.json --store redis://127.0.0.1:6379'],
  'sessions list': ['valise sessions list', 'valise sessions list https://notes.example.com/mcp'],
  'sessions show': ['valise sessions show diary'],
  'sessions delete': [
    'valise sessions delete diary https://notes.example.com/mcp',
    'valise sessions delete diary',
  ],
  'pending list': ['valise pending list --json'],
  'pending answer': ['valise pending answer Xb3… --answer resolution=Fixed'],
  'pending drop': ['valise pending drop Xb3…'],
};

/** Help examples of `valise` itself. */
export const FIRST_STEPS = `
Examples:
  valise tour
  valise call https://shop.example.com/mcp view_cart
  valise jar
  valise doctor https://shop.example.com/mcp`;

/** Adds these examples to the help of their commands. */
export function addExamples(program: Command): void {
  for (const [path, examples] of Object.entries(EXAMPLES)) {
    const [outer, inner] = path.split(' ');
    const command = program.commands
      .find((each) => each.name() === outer)
      ?.commands.find((each) => each.name() === inner);
    const title = examples.length === 1 ? 'Example' : 'Examples';
    command?.addHelpText('after', `\n${title}:\n${examples.map((line) => `  ${line}`).join('\n')}`);
  }
}
