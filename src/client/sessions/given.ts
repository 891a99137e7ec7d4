import {
  checkArgument,
  checkOptions,
  FLAG,
  FUNCTION,
  type Taken,
  type TakenBy,
  TEXT,
} from '../../options.ts';
import { MAX_LABEL } from '../../wire/index.ts';
import type { CreateOptions, ListenOptions, NotificationListener, SessionBehaviour } from './types.ts';

const LABEL: Taken = [
  `a text of 1 to ${MAX_LABEL} characters`,
  (value) => typeof value === 'string' && value.length > 0 && value.length <= MAX_LABEL,
];

const BEHAVIOUR: TakenBy<SessionBehaviour> = {
  ordering: ["'parallel' or 'serial'", (value) => value === 'parallel' || value === 'serial'],
  onGone: ["'throw' or 'recreate'", (value) => value === 'throw' || value === 'recreate'],
};

const CREATE: TakenBy<CreateOptions> = { ...BEHAVIOUR, label: LABEL, keep: FLAG };

const LISTEN: TakenBy<ListenOptions> = {
  resources: ['a list of URIs', Array.isArray],
  poll: ['true, false or { wait: seconds }', (value) => ['boolean', 'object'].includes(typeof value)],
  after: TEXT,
  onMissed: FUNCTION,
};

/** Throws if the options for a new session are invalid. */
export function checkCreation(name: string, options: CreateOptions): void {
  checkOptions(name, options, CREATE);
}

/** Throws if the label or the behavior options are invalid. */
export function checkNamed(label: string, behaviour: SessionBehaviour): void {
  checkArgument('sessions.named()', label, LABEL);
  checkBehaviour('sessions.named', behaviour);
}

/** Throws if the behavior options are invalid. */
export function checkBehaviour(name: string, behaviour: SessionBehaviour): void {
  checkOptions(name, behaviour, BEHAVIOUR);
}

/** Throws if the listener or its options are invalid. */
export function checkListen(listener: NotificationListener, options: ListenOptions): void {
  checkArgument('listen()', listener, FUNCTION);
  checkOptions('listen', options, LISTEN);
}
