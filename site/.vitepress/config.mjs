// The documentation site: the pages of the repository, as scripts/docs.mjs has staged them in .cache/site.
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const pages = fileURLToPath(new URL('../../.cache/site', import.meta.url));

const link = (text, path) => ({ text, link: path });

/** The pages that typedoc has made, one for each public subpath of the package. */
const api = readdirSync(`${pages}/docs/reference`, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.md') && !/^(?:index|cli)\.md$/.test(file))
  .map((file) => file.replace(/\.md$/, ''))
  .sort()
  .map((file) => link(`mcp-valise/${file.replace(/\/(?:store|public)$/, '')}`, `/docs/reference/${file}`));

/** Makes the anchor of a heading as GitHub does, since the pages are read there too. */
const slugify = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

export default defineConfig({
  title: 'Valise',
  description: 'The state layer for the Model Context Protocol',
  srcDir: pages,
  outDir: fileURLToPath(new URL('../dist', import.meta.url)),
  cacheDir: fileURLToPath(new URL('../../.cache/vitepress', import.meta.url)),
  cleanUrls: true,
  markdown: {
    anchor: { slugify },
    config(md) {
      const { fence } = md.renderer.rules;
      md.renderer.rules.fence = (tokens, index, ...rest) => {
        const { info, content } = tokens[index];
        if (info.trim() === 'mermaid')
          return `<pre class="mermaid" v-pre>${md.utils.escapeHtml(content)}</pre>`;
        return fence(tokens, index, ...rest);
      };
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      link('Guide', '/docs/which-do-i-need'),
      link('Reference', '/docs/reference/'),
      link('GitHub', 'https://github.com/mcp-valise/mcp-valise'),
    ],
    sidebar: [
      {
        text: 'Start',
        items: [
          link('What it is', '/'),
          link('Which do I need?', '/docs/which-do-i-need'),
          link('Quickstart: server', '/docs/quickstart-server'),
          link('Quickstart: host', '/docs/quickstart-host'),
          link('Examples', '/examples/'),
          link('Glossary', '/docs/glossary'),
        ],
      },
      {
        text: 'The families',
        items: [
          link('Jar', '/docs/jar'),
          link('Flows', '/docs/flows'),
          link('Sessions', '/docs/sessions'),
          link('Continuity', '/docs/continuity'),
          link('Calls that may be repeated', '/docs/idempotency'),
        ],
      },
      {
        text: 'Recipes',
        items: [
          link('Frameworks', '/docs/frameworks'),
          link('Hosts', '/docs/hosts'),
          link('Adapters', '/docs/adapters'),
          link('Migration', '/docs/migration'),
          link('Testing your server', '/docs/testing'),
        ],
      },
      {
        text: 'Run it',
        items: [
          link('Deployment', '/docs/operators'),
          link('Reliability', '/docs/reliability'),
          link('Security', '/docs/security'),
          link('Threat model', '/SECURITY'),
          link('Telemetry', '/docs/telemetry'),
          link('The console', '/docs/console'),
          link('Troubleshooting', '/docs/troubleshooting'),
          link('Which clients?', '/docs/clients'),
        ],
      },
      {
        text: 'Reference',
        items: [
          { text: 'API', collapsed: true, link: '/docs/reference/', items: api },
          link('Command line', '/docs/cli'),
          link('Commands and options', '/docs/reference/cli'),
          link('Error codes', '/docs/errors'),
          link('Stores', '/docs/stores'),
          link('Seals', '/docs/seals'),
          link('The wire', '/spec/wire'),
          link('Requirements', '/spec/requirements'),
        ],
      },
      {
        text: 'Inside',
        items: [
          link('How it works', '/docs/how-it-works'),
          link('Architecture', '/docs/architecture'),
          link('Contributing', '/CONTRIBUTING'),
          link('Decisions', '/docs/decisions'),
          link('Changelog', '/CHANGELOG'),
        ],
      },
    ],
  },
});
