import { Argument, type Command, InvalidArgumentError } from 'commander';
import { isObject } from '../../json.ts';
import { generateKey } from '../../seal/index.ts';
import { type Passing, startFront } from '../front.ts';
import { print } from '../output.ts';
import { type Instance, Processes } from '../tour/processes.ts';
import { EXAMPLE_NAMES } from './example.ts';

interface ClusterOptions {
  readonly instances: number;
  readonly http: number;
  readonly killBetweenRounds?: boolean;
}

/** `valise cluster EXAMPLE`: several instances behind a small round-robin front, to see what holds when they die. */
export function clusterCommand(program: Command): void {
  program
    .command('cluster')
    .description('run several instances of an example behind a round-robin front')
    .addArgument(new Argument('<example>', 'which one').choices(EXAMPLE_NAMES))
    .argument('[options...]', 'handed on to each instance, such as --store URL')
    .option('--instances <n>', 'how many', count, 3)
    .option('--http <port>', 'port of the front; 0 takes a free one', port, 0)
    .option('--kill-between-rounds', 'kill each instance that has asked something, before the answer comes')
    .allowUnknownOption()
    .addHelpText(
      'after',
      `
For trying things out; in production use a real balancer. The instances share VALISE_KEYS and nothing else.

Example:
  valise cluster work-items --instances 3 --http 8080 --kill-between-rounds`,
    )
    .action(run);
}

async function run(example: string, args: readonly string[], options: ClusterOptions): Promise<void> {
  const processes = new Processes();
  const env = { VALISE_KEYS: process.env['VALISE_KEYS'] || generateKey() };
  const extra = args.includes('--stateless') ? args : [...args, '--stateless'];
  const start = async (at: number): Promise<Instance> => {
    const instance = await processes.serve(`instance ${at + 1}`, example, extra, env);
    print(`${instance.name}: pid ${instance.pid}, ${instance.url.href}`);
    return instance;
  };
  try {
    const instances = await Promise.all(Array.from({ length: options.instances }, (_, at) => start(at)));
    const replace = async (at: number): Promise<void> => {
      const instance = instances[at] as Instance;
      await instance.kill();
      print(`${instance.name}: killed, pid ${instance.pid}`);
      instances[at] = await start(at);
    };
    const front = await startFront({
      targets: () => instances.map(({ url }) => url),
      port: options.http,
      ...(options.killBetweenRounds && { observe: killer(replace) }),
    });
    print(`listening on http://127.0.0.1:${front.port}/mcp`);
    await stopped();
    await front.close();
  } finally {
    await processes.close();
  }
}

/** How long a question may take to leave the front before its asker dies, in milliseconds. */
const GRACE = 50;

function killer(replace: (at: number) => Promise<void>): (passing: Passing) => void {
  const dying = new Set<number>();
  return ({ from, target, message }) => {
    if (from !== 'server' || !isQuestion(message) || dying.has(target)) return;
    dying.add(target);
    setTimeout(() => {
      replace(target).then(
        () => dying.delete(target),
        (error: Error) => print(`instance ${target + 1}: ${error.message}`),
      );
    }, GRACE);
  };
}

/** In any of the ways in which a server asks. */
function isQuestion(message: unknown): boolean {
  if (!isObject(message)) return false;
  if (typeof message['method'] === 'string') return message['id'] !== undefined;
  const { result } = message;
  return 'dependent_requests' in message || (isObject(result) && result['resultType'] === 'input_required');
}

function stopped(): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
  });
}

function count(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 32)
    throw new InvalidArgumentError('Give a number from 1 to 32.');
  return value;
}

function port(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0 || value > 65_535) throw new InvalidArgumentError('Give a port.');
  return value;
}
