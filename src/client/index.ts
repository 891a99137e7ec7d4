export { ValiseError } from '../errors.ts';
export { type ClientLike, type ClientValise, type ClientValiseOptions, openValise } from './valise.ts';
