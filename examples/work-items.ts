/**
 * A tracker of bugs whose rules ask the user for what is missing. The server keeps nothing between the questions: any
 * instance continues from any answer.
 *
 *     valise example work-items --stdio
 *     valise example work-items --http 3000
 */
import { createValise, type Flow } from 'mcp-valise/server';
import { z } from 'zod';
import { type Example, serveIfMain } from './serve.ts';

const STATE = 'System.State';
const RESOLUTION = 'Microsoft.VSTS.Common.ResolvedReason';
const DUPLICATE_OF = 'System.LinkTypes.Duplicate-Reverse';

export const example: Example = {
  name: 'work-items',
  build({ McpServer, options }) {
    const valise = createValise({ name: 'work-items', ...options });
    const tracker = new Map<number, Record<string, unknown>>();

    const update = async (workItemId: number, given: Record<string, unknown>, flow: Flow) => {
      const fields = { ...given };

      // Rule 1: a bug that becomes "Resolved" needs a resolution.
      if (fields[STATE] === 'Resolved' && fields[RESOLUTION] === undefined) {
        const { resolution } = await flow.ask('resolution', {
          message: `Resolving Bug #${workItemId} requires a resolution. How was this bug resolved?`,
          schema: {
            type: 'object',
            properties: {
              resolution: {
                type: 'string',
                enum: ['Fixed', "Won't Fix", 'Duplicate', 'By Design'],
                description: 'Resolution type for this bug',
              },
            },
            required: ['resolution'],
          },
        });
        fields[RESOLUTION] = resolution;
      }

      // Rule 2: a duplicate needs a link to the original.
      if (fields[RESOLUTION] === 'Duplicate' && fields[DUPLICATE_OF] === undefined) {
        const { duplicateOfId } = await flow.ask('duplicateOf', {
          message: 'Since this is a duplicate, which work item is the original?',
          schema: {
            type: 'object',
            properties: {
              duplicateOfId: { type: 'number', description: 'Work item ID of the original bug' },
            },
            required: ['duplicateOfId'],
          },
        });
        fields[DUPLICATE_OF] = duplicateOfId;
      }

      await flow.once('save', () => {
        tracker.set(workItemId, { ...tracker.get(workItemId), ...fields });
      });
      return summary(workItemId, fields);
    };

    const server = () => {
      const items = valise.install(new McpServer({ name: 'work-items', version: '1.0.0' }));
      items.registerTool(
        'update_work_item',
        {
          description: 'Changes fields of a work item. The rules of the project may ask for more.',
          inputSchema: z.object({
            workItemId: z.number().int(),
            fields: z.record(z.string(), z.unknown()),
          }),
        },
        valise.flow(async ({ workItemId, fields }, flow) => ({
          content: [{ type: 'text', text: await update(workItemId, fields, flow) }],
        })),
      );
      return items;
    };
    return { valise, server };
  },
};

function summary(workItemId: number, fields: Record<string, unknown>): string {
  if (fields[STATE] !== 'Resolved') return `Bug #${workItemId} updated.`;
  const original = fields[DUPLICATE_OF];
  return original === undefined
    ? `Bug #${workItemId} resolved as ${fields[RESOLUTION]}. State set to Resolved.`
    : `Bug #${workItemId} resolved as ${fields[RESOLUTION]} of Bug #${original}. State set to Resolved and duplicate link created.`;
}

await serveIfMain(import.meta.url, example);
