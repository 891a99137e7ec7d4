#!/usr/bin/env node
// `npm run build`: dist, from the sources as they are now.
import { build, install } from './prepare.mjs';

await install();
await build();
