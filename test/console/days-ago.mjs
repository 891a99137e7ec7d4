// Lets a process live three days ago: `node --import ./days-ago.mjs …`.
const SHIFT = 3 * 86_400_000;
const Today = Date;

globalThis.Date = class extends Today {
  constructor(...args) {
    super(...(args.length === 0 ? [Today.now() - SHIFT] : args));
  }

  static now() {
    return Today.now() - SHIFT;
  }
};
