#!/usr/bin/env node
// `npm run build`: dist, from the sources as they are now.
import { build, install } from './prepare.mjs';
import { say } from './steps.mjs';

try {
  await install();
  await build();
} catch (error) {
  say(error.message);
  process.exitCode = 1;
}
