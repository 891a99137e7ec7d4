#!/usr/bin/env node
// `npm run docs [-- --serve]`: builds the documentation site into site/dist from the repository's own Markdown, with the API
// reference from TSDoc and the command reference from the commands themselves. A dead link fails the build. `--serve` then
// serves it on loopback.
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { build, install, installFolder } from './prepare.mjs';
import { must, root, run } from './steps.mjs';

const SITE = `${root}site`;
const STAGE = `${root}.cache/site`;
const REPOSITORY = 'https://github.com/mcp-valise/mcp-valise';

/** The files and folders whose Markdown is on the site. */
const SOURCES = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs', 'spec', 'examples'];

await install();
await installFolder('site');
await build();
rmSync(STAGE, { recursive: true, force: true });
await apiReference();
await commandReference();
stagePages();
await must('site', process.execPath, [`${SITE}/node_modules/vitepress/bin/vitepress.js`, 'build', SITE]);
for (const part of ['mermaid.esm.min.mjs', 'chunks/mermaid.esm.min'])
  cpSync(`${SITE}/node_modules/mermaid/dist/${part}`, `${SITE}/dist/mermaid/${part}`, {
    recursive: true,
    filter: (path) => !path.endsWith('.map'),
  });
if (process.argv.includes('--serve'))
  await run(process.execPath, [`${SITE}/node_modules/vitepress/bin/vitepress.js`, 'preview', SITE]);

/** Generates a page for each public subpath, with every option and its default. */
async function apiReference() {
  const { exports } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  const entries = Object.entries(exports)
    .filter(([path, target]) => typeof target === 'object' && path !== './internal')
    .map(([, target]) => target.default.replace('./dist/', 'src/').replace(/\.js$/, '.ts'));
  const args = ['--options', `${SITE}/typedoc.json`, '--tsconfig', 'tsconfig.json', '--skipErrorChecking'];
  await must('API reference', process.execPath, [
    `${SITE}/node_modules/typedoc/bin/typedoc`,
    ...args,
    '--out',
    `${STAGE}/docs/reference`,
    ...entries,
  ]);
  const modules = readdirSync(`${STAGE}/docs/reference`, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md') && file !== 'index.md')
    .sort();
  // Named as they are imported: mcp-valise/store/redis, and not store/redis/store.
  const nameOf = (file) => `mcp-valise/${file.replace(/(?:\/store|\/public)?\.md$/, '')}`;
  for (const file of modules) {
    const text = readFileSync(`${STAGE}/docs/reference/${file}`, 'utf8');
    write(`docs/reference/${file}`, text.replace(/^# .*$/m, `# ${nameOf(file)}`));
  }
  write('docs/reference/index.md', referenceIndex(modules.map((file) => `[${nameOf(file)}](${file})`)));
}

function referenceIndex(modules) {
  return `# Reference

| | |
|---|---|
| API | ${modules.join(', ')} |
| options, with defaults | [createValise](server.md#servervaliseoptions) with [sessions](server.md#sessionsoptions), [flows](server.md#flowsoptions), [jar](server.md#jaroptions); [openValise](client.md#clientvaliseoptions) with [connect](client.md#connectoptions) |
| events | [of a server](server.md#serverevents), [of a client](client.md#clientevents) |
| error codes | [every code with its cause and fix](../errors.md) |
| command line | [commands and options](cli.md), [with examples](../cli.md) |
| wire | [every message and field](../../spec/wire.md) |
`;
}

/** Generates a page with every command, its arguments and its options, from what `--help` prints. */
async function commandReference() {
  const { makeProgram } = await import(`${root}cli/dist/main.js`);
  const sections = [];
  const visit = (command, path) => {
    const help = command.createHelp();
    const rows = (items, term, text) =>
      items.map((item) => `| \`${cell(term(item))}\` | ${cell(text(item))} |`);
    const table = (title, lines) => (lines.length === 0 ? [] : [`| ${title} | |`, '|---|---|', ...lines, '']);
    if (command.commands.length === 0 || command.parent)
      sections.push(
        `## ${path}`,
        '',
        `${help.commandDescription(command)}.`.replace(/^./, (first) => first.toUpperCase()),
        '',
        '```text',
        help.commandUsage(command).replace(/^\S+/, path.split(' ')[0]),
        '```',
        '',
        ...table(
          'argument',
          rows(
            help.visibleArguments(command),
            help.argumentTerm.bind(help),
            help.argumentDescription.bind(help),
          ),
        ),
        ...table(
          'option',
          rows(
            help.visibleOptions(command).filter(({ long }) => long !== '--help'),
            help.optionTerm.bind(help),
            help.optionDescription.bind(help),
          ),
        ),
      );
    for (const each of help.visibleCommands(command))
      if (each.name() !== 'help') visit(each, `${path} ${each.name()}`);
  };
  visit(
    makeProgram(() => {}),
    'valise',
  );
  const intro =
    'Generated from the commands themselves. [The command line](../cli.md) has examples and exit codes.';
  write('docs/reference/cli.md', ['# Commands and options', '', intro, '', ...sections].join('\n'));
}

function cell(text) {
  return text.replaceAll('|', '\\|').replace(/\s+/g, ' ');
}

/** Copies the pages with links that fit the site: README.md is the index of its folder, and sources are on GitHub. */
function stagePages() {
  const files = SOURCES.flatMap(filesUnder);
  const pages = files.filter((path) => path.endsWith('.md'));
  for (const path of files.filter((file) => /\.(?:png|webp|svg)$/.test(file))) {
    mkdirSync(dirname(`${STAGE}/${path}`), { recursive: true });
    cpSync(root + path, `${STAGE}/${path}`);
  }
  for (const page of pages) {
    const target = (link) => {
      const [path, anchor] = link.split('#');
      if (path === '' || /^[a-z]+:/.test(link)) return link;
      const to = normalize(join(dirname(page), path)).replace(/\/$/, '');
      const hash = anchor === undefined ? '' : `#${anchor}`;
      if (pages.includes(to)) return `${relativePath(onSite(page), onSite(to))}${hash}`;
      if (/\.(?:png|webp|svg)$/.test(to)) return relativePath(page, to);
      if (!existsSync(root + to)) throw new Error(`${page}: ${link} leads nowhere.`);
      return `${REPOSITORY}/${statSync(root + to).isDirectory() ? 'tree' : 'blob'}/main/${to}${hash}`;
    };
    write(
      onSite(page),
      outsideCode(readFileSync(root + page, 'utf8'), (text) =>
        text
          .replace(/<!--[\s\S]*?-->\n?/g, '')
          .replace(/<(?!br>)/g, '&lt;')
          .replace(/\]\(([^)\s]+)\)/g, (_, link) => `](${target(link)})`),
      ),
    );
  }
}

/** Changes a page, except for its code. */
function outsideCode(markdown, change) {
  return markdown
    .split(/(^ *`{3,}[\s\S]*?^ *`{3,}$|`[^`\n]+`)/gm)
    .map((part, index) => (index % 2 === 0 ? change(part) : part))
    .join('');
}

function onSite(path) {
  return path.replace(/README\.md$/, 'index.md');
}

function relativePath(from, to) {
  const path = relative(dirname(from), to);
  return path.startsWith('.') ? path : `./${path}`;
}

function filesUnder(path) {
  if (/(?:^|\/)node_modules$/.test(path)) return [];
  if (statSync(root + path).isFile()) return [path];
  return readdirSync(root + path).flatMap((name) => filesUnder(`${path}/${name}`));
}

function write(path, text) {
  mkdirSync(dirname(`${STAGE}/${path}`), { recursive: true });
  writeFileSync(`${STAGE}/${path}`, text);
}
