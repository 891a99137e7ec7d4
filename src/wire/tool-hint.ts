import { isObject } from '../json.ts';

/** The annotation of a tool whose sessions hold expensive resources, so that clients delete them early. */
export const RESOURCE_ALLOCATION = 'resourceAllocation';

/** True for a tool, as `tools/list` shows it, that says its sessions hold expensive resources. */
export function allocatesResources(tool: unknown): boolean {
  return isObject(tool) && isObject(tool.annotations) && tool.annotations[RESOURCE_ALLOCATION] === true;
}
