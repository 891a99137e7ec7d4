/** Stands in for `cloudflare:workers` and `cloudflare:email` outside the Workers runtime. */
export class DurableObject {}
export class RpcTarget {}
export class WorkerEntrypoint {}
export class WorkflowEntrypoint {}
export class EmailMessage {}
export const exports = {};
export const env = {};
