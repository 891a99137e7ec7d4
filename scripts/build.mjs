#!/usr/bin/env node
// `npm run build`: builds dist from the current sources.
import { build, install } from './prepare.mjs';
import { say } from './steps.mjs';

try {
  await install();
  await build();
} catch (error) {
  say(error.message);
  process.exitCode = 1;
}
