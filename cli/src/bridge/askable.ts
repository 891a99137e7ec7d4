import { isObject } from 'mcp-valise/internal';

/** Whether a host declares that it can show forms (or URLs). A host that names no mode predates modes and supports forms. */
export function canBeAsked(capabilities: unknown, mode: 'form' | 'url' = 'form'): boolean {
  const elicitation = isObject(capabilities) ? capabilities['elicitation'] : undefined;
  if (!isObject(elicitation)) return false;
  if (Object.keys(elicitation).length === 0) return mode === 'form';
  return isObject(elicitation[mode]);
}

/** Adds form support to a host's capabilities on its behalf. */
export function withForms(capabilities: unknown): Record<string, unknown> {
  const own = isObject(capabilities) ? capabilities : {};
  const elicitation = isObject(own['elicitation']) ? own['elicitation'] : {};
  return { ...own, elicitation: { ...elicitation, form: {} } };
}

/** Whether a host with these capabilities cannot be asked this question, so that somebody else must answer it. */
export function leavesOpen(capabilities: unknown, question: unknown): boolean {
  if (!isObject(question) || question['method'] !== 'elicitation/create') return false;
  const { params } = question;
  return !canBeAsked(capabilities, isObject(params) && params['mode'] === 'url' ? 'url' : 'form');
}
