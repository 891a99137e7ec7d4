import { isObject } from '../json.ts';
import { NAMES } from './names.ts';

const { resourceAllocation } = NAMES.modern.annotation;

/** Whether a tool, as listed by `tools/list`, declares that its sessions hold expensive resources. */
export function allocatesResources(tool: unknown): boolean {
  return isObject(tool) && isObject(tool.annotations) && tool.annotations[resourceAllocation] === true;
}
