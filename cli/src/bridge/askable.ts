import { isObject } from 'mcp-valise/internal';

/** True where a host says that forms can be put to it. One that names no mode is from before there were modes. */
export function canBeAsked(capabilities: unknown, mode: 'form' | 'url' = 'form'): boolean {
  const elicitation = isObject(capabilities) ? capabilities['elicitation'] : undefined;
  if (!isObject(elicitation)) return false;
  if (Object.keys(elicitation).length === 0) return mode === 'form';
  return isObject(elicitation[mode]);
}

/** Capabilities that say so in a host's place. */
export function withForms(capabilities: unknown): Record<string, unknown> {
  const own = isObject(capabilities) ? capabilities : {};
  const elicitation = isObject(own['elicitation']) ? own['elicitation'] : {};
  return { ...own, elicitation: { ...elicitation, form: {} } };
}

/** True for a question that a host of these capabilities cannot be asked, and somebody else can. */
export function leavesOpen(capabilities: unknown, question: unknown): boolean {
  if (!isObject(question) || question['method'] !== 'elicitation/create') return false;
  const { params } = question;
  return !canBeAsked(capabilities, isObject(params) && params['mode'] === 'url' ? 'url' : 'form');
}
