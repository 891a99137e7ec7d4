import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync, realpathSync } from 'node:fs';
import { basename, delimiter, dirname, extname, isAbsolute, join, resolve, sep } from 'node:path';
import { domainToASCII } from 'node:url';
import { parse } from 'tldts';
import { isObject } from '../json.ts';
import type { Target } from './target.ts';

/** Who a server is, as far as its state is concerned. Never what the server says about itself. */
export interface Identity {
  /** A domain name in lower case and ASCII, or the path of a stdio server. */
  readonly name: string;
  /** What one owner controls: the registrable domain, or the name. */
  readonly site: string;
  /** The domains that a `server-scope` of this server may name, the narrowest first; none on stdio. */
  readonly scopes: readonly string[];
  /** True where only the development switch lets state be kept. */
  readonly local: boolean;
  /** True where nothing tells this server from another: its state ends with the connection. */
  readonly passing: boolean;
}

/** A server that no state may be kept for. */
export interface NoIdentity {
  readonly name: string;
  /** A sentence for people. */
  readonly refused: string;
}

/** How servers are told apart. */
export interface IdentityOptions {
  /** Development only: state is kept for localhost, addresses and servers in this process too. */
  readonly allowLocal?: boolean | undefined;
  /** A stdio server's name carries the digest of its file: any change to the program starts empty. */
  readonly digest?: boolean | undefined;
}

/** True where state may be kept for the server. */
export function isIdentity(one: Identity | NoIdentity): one is Identity {
  return 'site' in one;
}

/** Who the server behind a target is. */
export function identify(target: Target, options: IdentityOptions = {}): Identity | NoIdentity {
  switch (target.kind) {
    case 'http':
      return identifyUrl(target.url, options);
    case 'stdio':
      return stdioIdentity(stdioName(target, options));
    case 'unknown':
      return identifyUnknown(options);
  }
}

let strangers = 0;

function identifyUnknown({ allowLocal }: IdentityOptions): Identity | NoIdentity {
  const name = 'memory:';
  if (!allowLocal) return { name, refused: 'Nothing tells what server is at the other end.' };
  const own = `${name}${++strangers}`;
  return { name: own, site: own, scopes: [], local: true, passing: true };
}

/** An HTTP server's name is its host: no scheme, no port, no final dot, lower case, IDN as punycode. */
function identifyUrl(url: URL, { allowLocal }: IdentityOptions): Identity | NoIdentity {
  // For these schemes the URL parser itself turns every spelling of an address into the usual one.
  const known = ['http:', 'https:', 'ws:', 'wss:'].includes(url.protocol);
  const name = url.hostname.toLowerCase().replace(/\.$/, '');
  const { refused, site } = known
    ? registrable(name)
    : { refused: `${url.protocol} is no web address.`, site: '' };
  if (refused === undefined)
    return { name, site, scopes: scopesOf(name, site), local: false, passing: false };
  if (!allowLocal || !known || name === '') return { name, refused };
  return { name, site: name, scopes: [name], local: true, passing: false };
}

function registrable(name: string): { readonly refused?: string; readonly site: string } {
  const no = (refused: string) => ({ refused, site: '' });
  const { isIp, isIcann, isPrivate, domain, hostname } = parse(name, { allowPrivateDomains: true });
  if (isIp || name.startsWith('[')) return no(`${name} is an address.`);
  if (name === 'localhost' || name.endsWith('.localhost')) return no(`${name} is this machine.`);
  if (hostname === null || hostname !== name) return no(`${JSON.stringify(name)} is not a domain name.`);
  if (!name.includes('.')) return no(`${name} is a single label, not a registered domain.`);
  // An unknown top-level name gets a `domain` all the same; these two say that a registry stands behind it.
  if (!isIcann && !isPrivate) return no(`No public registry knows the end of ${name}.`);
  if (domain === null) return no(`${name} is a public suffix: many owners have names below it.`);
  return { site: domain };
}

/** The host itself and every parent down to the registrable domain. */
function scopesOf(name: string, site: string): string[] {
  const scopes = [name];
  for (let at = name; at !== site; ) {
    at = at.slice(at.indexOf('.') + 1);
    scopes.push(at);
  }
  return scopes;
}

/** The {@link Identity.site} of a name that is known already. */
export function siteOf(name: string): string {
  return name.includes('/') ? name : registrable(name).site || name;
}

/** A `server-scope` as {@link Identity.scopes} writes it. */
export function normalScope(scope: string): string {
  const bare = scope.replace(/^\./, '').replace(/\.$/, '').toLowerCase();
  return domainToASCII(bare) || bare;
}

function stdioIdentity(name: string): Identity {
  return { name, site: name, scopes: [], local: false, passing: false };
}

type StdioTarget = Extract<Target, { readonly kind: 'stdio' }>;

/** Programs that run the file they are given. */
const INTERPRETERS =
  /^(node|nodejs|bun|deno|tsx|ts-node|python[\d.]*|pythonw|pypy[\d.]*|py|ruby|perl|php|lua|rscript|java|dotnet|sh|bash|zsh|dash|pwsh|powershell)$/;
/** Programs that find out by themselves what to run: their own path says nothing about the server. */
const LAUNCHERS =
  /^(npx|npm|pnpm|pnpx|yarn|bunx|uvx|uv|pipx|poetry|conda|docker|podman|nerdctl|env|sudo|ssh|wsl|cmd|nix|cargo|go|xargs|timeout|nohup|nice)$/;
/** Those of them that run what a registry knows by the name they are given, wherever they stand. */
const REGISTRIES = /^(npx|pnpx|bunx|uvx|pipx|docker|podman|nerdctl)$/;
/** Flags of interpreters whose value is the next argument. */
const VALUED =
  /^(-r|--require|--import|--loader|--experimental-loader|--env-file|--env-file-if-exists|-C|--conditions|--title|--tsconfig|-W|-X|-cp|-classpath|--class-path|--config)$/;
/** Flags after which there is no file: the program is in the arguments, or named otherwise. */
const INLINE = /^(-e|--eval|-p|--print|-c|-m|-Command|\/c)$/;
const SCRIPT = /^\.[cm]?[jt]sx?$/;

/**
 * A stdio server's name: the path of the server's file, absolute and through links, of an interpreter the script's;
 * after a `#` the package it belongs to and, on demand, its digest. Where no file can be told, the whole command is
 * the name, arguments as a digest since they may be secret: two programs never share a name.
 */
function stdioName({ command, args, cwd }: StdioTarget, { digest }: IdentityOptions): string {
  const program = basename(command)
    .replace(/\.(exe|cmd|bat)$/i, '')
    .toLowerCase();
  const interpreted = INTERPRETERS.test(program);
  const file = interpreted
    ? scriptOf(args, cwd)
    : LAUNCHERS.test(program)
      ? undefined
      : findProgram(command, cwd);
  if (file === undefined) return commandName(program, args, cwd);
  const marks = [packageOf(file), ...(digest ? [digestOf(file)] : [])].filter((mark) => mark !== undefined);
  const path = file.replace(/[%#]/g, encodeURIComponent);
  // A bridge is another server for each address that it leads to.
  return [path, ...marks.map((mark) => `#${mark}`), ...addresses(args).map((at) => ` ${at}`)].join('');
}

function scriptOf(args: readonly string[], cwd: string): string | undefined {
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] as string;
    if (INLINE.test(arg)) return undefined;
    if (VALUED.test(arg)) at++;
    else if (!arg.startsWith('-')) {
      const found = existing(resolve(cwd, arg));
      if (found !== undefined) return found;
      // `run` and the like may stand before the file; anything else that is not a file is not for us to guess.
      if (arg !== 'run' && arg !== 'exec') return undefined;
    }
  }
  return undefined;
}

function existing(path: string): string | undefined {
  for (const ending of ['', '.js', '.mjs', '.cjs', '.ts', '.py']) {
    if (existsSync(path + ending)) return realpathSync(path + ending);
  }
  return undefined;
}

function findProgram(command: string, cwd: string): string | undefined {
  if (isAbsolute(command) || command.includes('/') || command.includes(sep))
    return existing(resolve(cwd, command));
  const endings = process.platform === 'win32' ? ['.exe', '.cmd', '.bat', ''] : [''];
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    for (const ending of endings) {
      const path = join(folder || '.', command + ending);
      if (isExecutable(path)) return realpathSync(path);
    }
  }
  return undefined;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** `name@version` of the package that a script belongs to. */
function packageOf(file: string): string | undefined {
  if (!SCRIPT.test(extname(file)) && !file.includes(`${sep}node_modules${sep}`)) return undefined;
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const manifest = readManifest(join(folder, 'package.json'));
    if (manifest !== undefined) return manifest;
    if (folder === dirname(folder)) return undefined;
  }
}

function readManifest(path: string): string | undefined {
  try {
    const manifest: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (!isObject(manifest) || typeof manifest.name !== 'string') return undefined;
    return typeof manifest.version === 'string' ? `${manifest.name}@${manifest.version}` : manifest.name;
  } catch {
    return undefined;
  }
}

function digestOf(file: string): string | undefined {
  try {
    return `sha256-${sha256(readFileSync(file))}`;
  } catch {
    return undefined;
  }
}

function addresses(args: readonly string[]): string[] {
  return args.flatMap((arg) => {
    const match = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]+)/i.exec(arg);
    return match ? [(match[1] as string).toLowerCase()] : [];
  });
}

function commandName(program: string, args: readonly string[], cwd: string): string {
  const shown = args.find((arg) => !arg.startsWith('-') && !/[=:\s]|^\//.test(arg));
  const whole = JSON.stringify(REGISTRIES.test(program) ? args : [...args, cwd]);
  return `${program}${shown === undefined ? '' : ` ${shown}`} +${sha256(whole).slice(0, 16)}`;
}

function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('base64url');
}
