import { describe, it } from 'vitest';
import { storeContract } from '../../src/store/contract.ts';
import { fileStore } from '../../src/store/index.ts';
import { temporaryFolder, tsx } from './places.ts';

storeContract(
  () => {
    const { folder, remove } = temporaryFolder();
    const file = `${folder}/state.json`;
    return { open: () => fileStore(file), url: `file:${file}`, remove };
  },
  { describe, it },
  { name: 'file', execArgv: tsx },
);
