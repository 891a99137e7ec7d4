/** A server of either SDK major: `McpServer` or `Server`. */
export interface ServerLike {
  // biome-ignore lint/suspicious/noExplicitAny: the majors' transport types differ, and only an open parameter accepts both
  connect(transport: any): Promise<void>;
}
