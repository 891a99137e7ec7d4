import { isObject } from '../json.ts';
import { NAMES } from './names.ts';

const { resourceAllocation } = NAMES.modern.annotation;

/** True for a tool, as `tools/list` shows it, that says its sessions hold expensive resources. */
export function allocatesResources(tool: unknown): boolean {
  return isObject(tool) && isObject(tool.annotations) && tool.annotations[resourceAllocation] === true;
}
