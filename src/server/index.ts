export { ValiseError } from '../errors.ts';
export { createValise, type ServerLike, type ServerValise, type ServerValiseOptions } from './valise.ts';
