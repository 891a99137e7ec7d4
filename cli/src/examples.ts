import type { Command } from 'commander';

/** Examples for the help of commands that are parts of others, by their words. */
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

/** Examples for the help of `valise` itself. */
export const FIRST_STEPS = `
Examples:
  valise tour
  valise call https://shop.example.com/mcp view_cart
  valise jar
  valise doctor https://shop.example.com/mcp`;

/** Adds examples to the help of every command that has some here. */
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
