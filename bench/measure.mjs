// The measuring method of all benches: ours and the peers run side by side in one process, in interleaved rounds,
// so that a busy machine slows all of them alike. The result is the median over the rounds, by default of CPU time
// (all threads of this process); a bench can choose wall time.
//
//   const bench = openBench('seal');
//   await bench.compare('seal 200 B', {
//     ours: () => sealer.seal(value, options),
//     peers: { 'node:crypto': bare, jose: { run: () => encrypt(value), goal: 5 } },
//   });
//   bench.close();
//
// A peer may set `clock: 'wall'` if its cost is mostly waiting (other threads, other processes).
// If other processes do part of the work, `others` in `{ run, others }` returns their CPU time so far in microseconds.
// A function may be synchronous or return a promise; promises run `inFlight` at a time. `ratio` is the peer's
// cost over ours: 5 means ours is five times as fast, 0.8 means ours costs a quarter more. A `goal` is the ratio to reach.
//
// With `processes: N`, a case is measured in N processes, one after another, and the one with the median ratio counts,
// because the same code is compiled differently in each process and its cost varies by a few percent. The subjects are
// then passed as a function, which only those processes call: `compare(name, async () => ({ ours, peers }))`.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

const median = (list) => {
  const sorted = [...list].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

const isPromise = (value) => typeof value?.then === 'function';

/** Calls `run` `count` times, with `inFlight` calls at a time if it is asynchronous. */
async function repeat(run, count, inFlight, asynchronous) {
  if (!asynchronous) {
    for (let index = 0; index < count; index++) run(index);
    return;
  }
  let next = 0;
  const lane = async () => {
    while (next < count) await run(next++);
  };
  await Promise.all(Array.from({ length: Math.min(inFlight, count) }, lane));
}

/** Returns microseconds per call over `count` calls, by both clocks. */
async function slot(subject, count, inFlight) {
  const others = subject.others?.() ?? 0;
  const cpu = process.cpuUsage();
  const wall = process.hrtime.bigint();
  await repeat(subject.run, count, inFlight, subject.asynchronous);
  const wallUs = Number(process.hrtime.bigint() - wall) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const elsewhere = (subject.others?.() ?? 0) - others;
  return { cpu: (user + system + elsewhere) / count, wall: wallUs / count };
}

/** Finds how many calls fill one slot. */
async function size(subject, { inFlight, slotMs }) {
  const first = subject.run(0);
  subject.asynchronous = isPromise(first);
  await first;
  for (let count = 1; ; count *= 2) {
    const start = performance.now();
    await repeat(subject.run, count, inFlight, subject.asynchronous);
    const took = performance.now() - start;
    subject.count = Math.max(1, Math.round((slotMs * count) / Math.max(took, 1e-2)));
    if (took >= slotMs / 2) return;
  }
}

/** Runs all subjects in turns, as they are measured, until the compiler has settled. */
async function warmUp(subjects, settings) {
  const end = performance.now() + settings.warmUpMs * subjects.length;
  do {
    for (const subject of shuffled(subjects)) await size(subject, settings);
  } while (performance.now() < end);
}

let seed = process.pid;

/** Shuffles the order each time, so that no subject always pays for the garbage that the same neighbor left. */
function shuffled(list) {
  const order = [...list];
  for (let left = order.length; left > 1; left--) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    const at = Math.floor((seed / 2147483648) * left);
    [order[left - 1], order[at]] = [order[at], order[left - 1]];
  }
  return order;
}

const SETTINGS = { clock: 'cpu', inFlight: 1, slotMs: 20, warmUpMs: 150, rounds: 25 };

const round = (value) => Number(value.toFixed(3));

const figure = (value) =>
  value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);

const verdictOf = ({ ratio }, goal) =>
  goal === undefined ? '' : `goal ${figure(goal)}: ${ratio >= goal ? 'reached' : 'MISSED'}`;

function print(row, first) {
  const { goal, clock, other_ratio: otherRatio } = row;
  const cells = [
    (first ? row.case : '').padEnd(34),
    (first ? figure(row.ours_us) : '').padStart(10),
    ` ${row.peer}`.padEnd(34),
    figure(row.peer_us).padStart(10),
    `${figure(row.ratio)} ×`.padStart(10),
    `  ${clock}`.padEnd(7),
    `(${clock === 'cpu' ? 'wall' : 'cpu'} ${figure(otherRatio)} ×)`.padEnd(16),
    verdictOf(row, goal),
  ];
  console.log(cells.join('').trimEnd());
}

/**
 * Hides one warning: the SDK alone adds listeners to one signal with each call, and Node's warnings about it would clutter
 * the table. Other warnings are shown.
 */
const QUIET = '--disable-warning=MaxListenersExceededWarning';

/** Node before 20.11 does not support the option, and would not start with it. */
const quiet = process.allowedNodeEnvironmentFlags.has('--disable-warning') ? [QUIET] : [];

/** Returns the rows of one case, measured in its own process. */
async function rowsApart(name) {
  const argv = process.argv.slice(2).filter((word) => word !== '--strict');
  const args = [...process.execArgv, ...quiet, process.argv[1], ...argv, '--json', '--case', name];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('close', resolve));
  const rows = [];
  for await (const line of createInterface({ input: child.stdout })) rows.push(JSON.parse(line));
  const code = await ended;
  if (code !== 0 || rows.length === 0) throw new Error(`"${name}" ended with ${code}, and was not measured.`);
  return rows;
}

/** Returns, for each peer, the row with the median ratio of all processes. */
async function medianRows(name, processes) {
  const all = [];
  for (let at = 0; at < processes; at++) all.push(await rowsApart(name));
  return all[0].map((_, peer) => {
    const sorted = all.map((rows) => rows[peer]).sort((a, b) => a.ratio - b.ratio);
    return sorted[processes >> 1];
  });
}

/**
 * Opens a bench. Reads `--json` (one JSON object per line), `--rounds N`, `--only TEXT` (cases whose name contains it) and
 * `--case NAME` (one case, in this process) from the command line.
 */
export function openBench(bench, defaults = {}) {
  const argv = process.argv.slice(2);
  const flag = (name) => (argv.includes(name) ? argv[argv.indexOf(name) + 1] : undefined);
  const json = argv.includes('--json');
  const only = flag('--only');
  const one = flag('--case');
  const rows = [];
  let missed = 0;

  if (!json) {
    const heads = [
      'case'.padEnd(34),
      'ours µs'.padStart(10),
      ' peer'.padEnd(34),
      'µs'.padStart(10),
      'ratio'.padStart(10),
    ];
    console.log(`${bench} · ratio = the peer's cost over ours · medians of interleaved rounds\n`);
    console.log(heads.join(''));
  }

  /** Returns the rows of one case, measured in this process. */
  async function measured(name, { ours, peers }, settings) {
    const rounds = Number(flag('--rounds') ?? settings.rounds);
    const subjectOf = (given) => (typeof given === 'function' ? { run: given } : given);
    const subjects = [{ name: 'ours', ...subjectOf(ours) }];
    for (const [peer, given] of Object.entries(peers)) subjects.push({ name: peer, ...subjectOf(given) });
    // Collects garbage once, not before every slot: a forced collection shrinks the young generation, and everything then
    // runs at half speed.
    globalThis.gc?.();
    for (const subject of subjects) subject.times = [];
    await warmUp(subjects, settings);
    for (let round = 0; round < rounds; round++) {
      for (const subject of shuffled(subjects)) {
        subject.times.push(await slot(subject, subject.count, settings.inFlight));
      }
    }
    const [own, ...others] = subjects;
    return others.map((peer) => {
      const clock = peer.clock ?? settings.clock;
      const cost = (subject, by) => median(subject.times.map((time) => time[by]));
      const ratio = (by) => round(cost(peer, by) / cost(own, by));
      return {
        bench,
        case: name,
        ours_us: round(cost(own, clock)),
        peer: peer.name,
        peer_us: round(cost(peer, clock)),
        ratio: ratio(clock),
        clock,
        other_ratio: ratio(clock === 'cpu' ? 'wall' : 'cpu'),
        ...(peer.goal !== undefined && { goal: peer.goal }),
      };
    });
  }

  return {
    rows,

    /** Measures `ours` and every peer, and resolves to the rows. `clock` is 'cpu' or 'wall'. */
    async compare(name, given) {
      if (one !== undefined ? name !== one : only !== undefined && !name.includes(only)) return [];
      const { processes = 1 } = defaults;
      const apart = one === undefined && processes > 1 && typeof given === 'function';
      const { ours, peers, ...own } = apart ? {} : typeof given === 'function' ? await given() : given;
      const settings = { ...SETTINGS, ...defaults, ...own };
      const added = apart
        ? await medianRows(name, processes)
        : await measured(name, { ours, peers }, settings);
      for (const [index, row] of added.entries()) {
        if (row.goal !== undefined && row.ratio < row.goal) missed++;
        if (json) console.log(JSON.stringify(row));
        else print(row, index === 0 || row.clock !== added[index - 1].clock);
      }
      rows.push(...added);
      return added;
    },

    /** Compares figures that were measured before, such as a difference. The comparison counts like any other. */
    judge(name, { ours_us, peer, peer_us, clock, goal }) {
      const ratio = round(peer_us / ours_us);
      const row = { bench, case: name, ours_us: round(ours_us), peer, peer_us: round(peer_us), ratio };
      rows.push(row);
      if (ratio < goal) missed++;
      if (json) console.log(JSON.stringify(row));
      else {
        const costs = `ours ${figure(ours_us)} µs, ${peer} ${figure(peer_us)} µs, ${figure(ratio)} ×`;
        console.log(`  ${name}: ${costs} (${clock}; ${verdictOf(row, goal)})\n`);
      }
    },

    /** Whether the command line selects a case of this name, for cases that are measured elsewhere. */
    wants: (name) => (one !== undefined ? name === one : only === undefined || name.includes(only)),

    /** Records a figure that was measured elsewhere, with the goal as text. */
    check(name, value, goal, isReached) {
      const row = { bench, case: name, value, goal, reached: isReached };
      rows.push(row);
      if (!isReached) missed++;
      if (json) console.log(JSON.stringify(row));
      else console.log(`  ${name}: ${value} (goal ${goal}: ${isReached ? 'reached' : 'MISSED'})`);
    },

    /** Prints a figure that is not a comparison, such as a size; only in the table. */
    note(text) {
      if (!json) console.log(text);
    },

    /** Prints how many goals were missed; with `--strict`, a missed goal fails the run. */
    close() {
      if (!json) console.log(missed === 0 ? '\nEvery goal reached.' : `\n${missed} goal(s) missed.`);
      if (missed > 0 && argv.includes('--strict')) process.exitCode = 1;
    },
  };
}
