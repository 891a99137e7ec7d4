import { describe, expect, it } from 'vitest';
import { allSources, importsOf } from '../house/sources.ts';

describe('mcp-valise/otel', () => {
  it('is the only part that loads OpenTelemetry, and no other part loads it', () => {
    const others = allSources().filter(({ path }) => !path.startsWith('otel/'));
    expect(others.length).toBeGreaterThan(300);
    const found = others.flatMap((source) =>
      importsOf(source)
        .filter(({ specifier }) => specifier.includes('opentelemetry') || specifier.includes('/otel/'))
        .map(({ specifier }) => `${source.path} imports ${specifier}`),
    );
    expect(found).toEqual([]);
  });
});
