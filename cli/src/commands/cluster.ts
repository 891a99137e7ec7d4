import { join } from 'node:path';
import { Argument, type Command, InvalidArgumentError } from 'commander';
import { isObject } from 'mcp-valise/internal';
import { generateKey } from 'mcp-valise/seal';
import { SIGNALS } from '../connection/waiting.ts';
import {
  checkOwn,
  commonOptions,
  type ExampleOptions,
  needForExample,
  OWN_OPTIONS,
  portOf,
  wordsFor,
} from '../examples/example-options.ts';
import { startLoadBalancer } from '../examples/load-balancer.ts';
import { temporaryFolder } from '../examples/temporary-folder.ts';
import { keyOptions, keysIfAny, keysText } from '../options/key-source.ts';
import { killAskers, rotate } from '../options/rotation.ts';
import { print, remark } from '../output/output.ts';
import { type Instance, Processes } from '../tour/processes.ts';
import { EXAMPLE_NAMES } from './example.ts';

interface ClusterOptions extends ExampleOptions {
  readonly instances: number;
  readonly http: number;
  readonly killBetweenRounds?: boolean;
}

/** `valise cluster EXAMPLE`: several instances behind a small round-robin front, to see what survives when they die. */
export function clusterCommand(program: Command): void {
  const handedOn = [...commonOptions(), ...Object.values(OWN_OPTIONS).flatMap((options) => options())];
  const command = program
    .command('cluster')
    .description('run several instances of an example behind a round-robin front')
    .addArgument(new Argument('<example>', 'which one').choices(EXAMPLE_NAMES))
    .option('--instances <n>', 'how many', count, 3)
    .option('--http <port>', 'port of the front; 0 takes a free one', portOf, 0)
    .option('--kill-between-rounds', 'kill each instance that has asked something, before the answer comes')
    .addHelpText(
      'after',
      `
The options of the example go to each instance. The instances share their keys and, with --store URL or
--mode stored, a store. For trying things out; in production use a real balancer.

Example:
  valise cluster work-items --instances 3 --http 8080 --kill-between-rounds`,
    )
    .action((example: string, options: ClusterOptions) => {
      checkOwn(example, { ...options });
      return run(example, wordsFor(handedOn, { ...options, stateless: true }), options);
    });
  for (const option of handedOn) command.addOption(option);
  keyOptions(command);
}

async function run(example: string, args: readonly string[], options: ClusterOptions): Promise<void> {
  const stop = interrupted();
  const env = { VALISE_KEYS: keysIfAny(options) ? keysText(options) : generateKey() };
  needForExample(options);
  const processes = new Processes();
  const shared = await sharedStore(options);
  const extra = [...args, ...shared.args];
  const start = async (at: number): Promise<Instance> => {
    const name = `instance ${at + 1}`;
    const hear = (words: string): void => {
      for (const line of words.split('\n')) if (line !== '') remark(`${name}: ${line}`);
    };
    const instance = await processes.serve(name, example, extra, env, hear);
    print(`${instance.name}: pid ${instance.pid}, ${instance.url.href}`);
    return instance;
  };
  try {
    const starting = Array.from({ length: options.instances }, (_, at) => start(at));
    const instances = await Promise.race([Promise.all(starting), stop]);
    if (instances === undefined) return;
    const rotation = rotate(instances, start, ({ name, pid }) => print(`${name}: killed, pid ${pid}`));
    const failed = ({ message }: Error): void => remark(`An instance could not be replaced: ${message}`);
    const front = await startLoadBalancer({
      targets: () => rotation.targets(),
      port: options.http,
      ...(options.killBetweenRounds && { observe: killAskers(isQuestion, rotation, failed) }),
    });
    print(`listening on http://127.0.0.1:${front.port}/mcp`);
    await stop;
    await front.close();
  } finally {
    await processes.close();
    await shared.remove();
  }
}

/** Makes sure that stored sessions are in a store that every instance can reach. */
async function sharedStore({
  mode,
  store: given,
}: ExampleOptions): Promise<{ readonly args: readonly string[]; remove(): Promise<void> }> {
  if (mode !== 'stored' || given !== undefined) return { args: [], remove: async () => {} };
  const folder = await temporaryFolder('cluster');
  const store = `sqlite:${join(folder.path, 'state.db')}`;
  print(`store for all instances, until they end: ${store}`);
  return { args: ['--store', store], remove: () => folder.remove() };
}

/** Whether the message is a question, in any of the forms in which a server asks. */
function isQuestion(message: unknown): boolean {
  if (!isObject(message)) return false;
  if (typeof message['method'] === 'string') return message['id'] !== undefined;
  const { result } = message;
  return 'dependent_requests' in message || (isObject(result) && result['resultType'] === 'input_required');
}

/** Resolves on the first signal, so that the command can stop the processes it started. */
function interrupted(): Promise<undefined> {
  return new Promise((resolve) => {
    for (const signal of SIGNALS) process.once(signal, () => resolve(undefined));
  });
}

function count(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 32)
    throw new InvalidArgumentError('Give a number from 1 to 32.');
  return value;
}
