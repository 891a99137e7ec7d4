import { describe, it } from 'vitest';
import { storeContract } from '../../src/store/contract.ts';
import { sqliteStore } from '../../src/store/sqlite.ts';
import { temporaryFolder, tsx } from './places.ts';

storeContract(
  () => {
    const { folder, remove } = temporaryFolder();
    const file = `${folder}/state.db`;
    return { open: () => sqliteStore(file), url: `sqlite:${file}`, remove };
  },
  { describe, it },
  { name: 'sqlite', execArgv: tsx },
);
