type Wire = typeof import('../src/wire/index.ts');

/** Each table of the document, by the name in its marker. */
export function tables(wire: Wire): Record<string, string>;

/** The document with its tables between the markers. */
export function withTables(text: string, made: Record<string, string>): string;
