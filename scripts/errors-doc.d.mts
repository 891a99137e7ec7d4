export function withCodes(text: string, codes: Record<string, readonly [string, string]>): string;
