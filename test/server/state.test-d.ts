import { createValise, type Json, type ServerValise } from 'mcp-valise/server';
import { describe, expectTypeOf, it } from 'vitest';
import { z } from 'zod';

const Cart = z.object({ items: z.array(z.string()), price: z.number() });
type Cart = { items: string[]; price: number };

describe('the types of state', () => {
  const valise = createValise({
    name: 'shop',
    jar: {
      session: { cart: { schema: Cart, plain: true }, note: { plain: true } },
      server: { since: { schema: z.iso.datetime().transform((text) => new Date(text)) } },
    },
  });

  it('the types of state follow the declaration', () => {
    const { session, server } = valise.jar;
    expectTypeOf(session.get('cart')).toEqualTypeOf<Cart | undefined>();
    expectTypeOf(session.get('note')).toEqualTypeOf<Json | undefined>();
    session.set('cart', { items: [], price: 0 });
    // @ts-expect-error: a price is a number
    session.set('cart', { items: [], price: '0' });
    expectTypeOf(server.get('since')).toEqualTypeOf<Date | undefined>();
    server.set('since', '2026-07-28T00:00:00Z');
    // @ts-expect-error: what is set is what the schema reads
    server.set('since', new Date());
  });

  it('the type of an undeclared name, or of a name in the other scope, is any JSON', () => {
    const { session, server } = valise.jar;
    expectTypeOf(session.get('anything')).toEqualTypeOf<Json | undefined>();
    expectTypeOf(server.get('cart')).toEqualTypeOf<Json | undefined>();
    session.set('anything', [1, { two: null }]);
    // @ts-expect-error: a date is not JSON
    session.set('anything', new Date());
    const name: string = String('cart');
    expectTypeOf(session.get(name)).toEqualTypeOf<Json | undefined>();
  });

  it('set accepts interfaces that are JSON', () => {
    interface Order {
      readonly id: number;
      readonly lines: readonly { readonly item: string; readonly note?: string }[];
    }
    interface Dated {
      readonly at: Date;
    }
    const order = {} as Order;
    const { session } = valise.jar;
    session.set('anything', order);
    session.set('note', [order]);
    session.set(String('name'), order);
    createValise({ name: 'shop' }).jar.server.set('order', order);
    // @ts-expect-error: there is a date in it
    session.set('anything', {} as Dated);
    // @ts-expect-error: a schema says what a cart is
    session.set('cart', order);
    // @ts-expect-error: a function is not JSON
    session.set('anything', () => order);
    // @ts-expect-error: what is undefined is nothing
    session.set('anything', undefined);
  });

  it('a key from valise.jar.key() carries its type', () => {
    const cart = valise.jar.key('cart', { schema: Cart });
    const { session, server } = valise.jar;
    expectTypeOf(session.get(cart)).toEqualTypeOf<Cart | undefined>();
    server.set(cart, { items: [], price: 0 });
    // @ts-expect-error: a price is a number
    server.set(cart, { items: [], price: '0' });
    session.delete(cart);
    expectTypeOf(session.has(cart)).toEqualTypeOf<boolean>();
    expectTypeOf(session.get(valise.jar.key('plain'))).toEqualTypeOf<Json | undefined>();
  });

  it('state needs no declaration', () => {
    const undeclared = createValise({ name: 'shop' });
    expectTypeOf(undeclared).toExtend<ServerValise>();
    expectTypeOf(undeclared.jar.session.get('cart')).toEqualTypeOf<Json | undefined>();
    undeclared.jar.server.set('cart', { items: ['tomato'] });
  });

  it('a function may take any Valise without knowing its schemas', () => {
    const handed: ServerValise = valise;
    const { session } = handed.jar;
    expectTypeOf(session.get('cart')).toEqualTypeOf<unknown>();
    session.set('order', { items: ['tomato'] });
    session.set('order', {} as { readonly id: number });
    const cart = handed.jar.key('cart', { schema: Cart });
    expectTypeOf(session.get(cart)).toEqualTypeOf<Cart | undefined>();
    // @ts-expect-error: a date is not JSON
    session.set('order', new Date());
    // @ts-expect-error: what is undefined is nothing
    session.set('order', undefined);
  });

  it('set accepts a generic JSON value', () => {
    const put = <Value extends Json>(name: string, value: Value) => valise.jar.session.set(name, value);
    expectTypeOf(put).returns.toEqualTypeOf<void>();
  });

  it('set refuses undefined in a list, and for a key whose schema has a default', () => {
    const given = createValise({
      name: 'shop',
      jar: { server: { colour: { schema: z.string().default('red') } } },
    }).jar.server;
    given.set('colour', 'blue');
    // @ts-expect-error: what is undefined is nothing
    given.set('colour', undefined);
    // @ts-expect-error: nor is it in a list
    given.set('list', [undefined]);
  });
});

describe('get with a type', () => {
  interface Note {
    readonly text: string;
    readonly tags?: readonly string[];
  }
  const valise = createValise({ name: 'shop', sessions: {} });

  it('get with a type parameter works the same on the jar and on sessions, also with an interface', () => {
    const { session: jar, server } = valise.jar;
    const session = valise.session();
    expectTypeOf(server.get<number>('visits')).toEqualTypeOf<number | undefined>();
    expectTypeOf(jar.get<string>('name')).toEqualTypeOf<string | undefined>();
    expectTypeOf(jar.get<Note[]>('notes')).toEqualTypeOf<Note[] | undefined>();
    expectTypeOf(session?.get<number>('visits')).toEqualTypeOf<number | undefined>();
    expectTypeOf(session?.get<Note[]>('notes')).toEqualTypeOf<Note[] | undefined>();
    const notes: Note[] = [{ text: 'a' }];
    jar.set('notes', notes);
    session?.set('notes', notes);
    session?.namespace('own').set('notes', notes);
    // @ts-expect-error: JSON has no functions
    session?.set('notes', { read: () => 1 });
  });

  it('get of a session takes a schema', () => {
    expectTypeOf(valise.session()?.get('cart', Cart)).toEqualTypeOf<Cart | undefined>();
  });
});

describe('the types of sessions', () => {
  const Notes = z.object({
    cart: Cart.optional(),
    since: z.iso.datetime().transform((text) => new Date(text)),
  });
  const valise = createValise({
    name: 'shop',
    sessions: { schema: Notes },
    jar: { session: { cart: { schema: Cart } } },
  });

  it('the types of sessions follow the schema, as those of the jar do', () => {
    const session = valise.session()!;
    const jar = valise.jar.session;
    expectTypeOf(session.get('cart')).toEqualTypeOf<Cart | undefined>();
    expectTypeOf(jar.get('cart')).toEqualTypeOf<Cart | undefined>();
    expectTypeOf(session.get('since')).toEqualTypeOf<Date | undefined>();
    session.set('cart', { items: [], price: 0 });
    session.set('since', '2026-07-28T00:00:00Z');
    // @ts-expect-error: a price is a number
    session.set('cart', { items: [], price: '0' });
    // @ts-expect-error: what is set is what the schema reads
    session.set('since', new Date());
  });

  it('the type of other keys is the type parameter, or any JSON, on the jar and on sessions', () => {
    const session = valise.session()!;
    expectTypeOf(session.get('other')).toEqualTypeOf<Json | undefined>();
    expectTypeOf(session.get<string[]>('other')).toEqualTypeOf<string[] | undefined>();
    session.set('other', [1]);
    // @ts-expect-error: a date is not JSON
    session.set('other', new Date());
    const undeclared = createValise({ name: 'shop', sessions: {} }).session()!;
    expectTypeOf(undeclared.get('other')).toEqualTypeOf<Json | undefined>();
    expectTypeOf(undeclared.get<string[]>('other')).toEqualTypeOf<string[] | undefined>();
    undeclared.set('other', [1]);
    const jar = valise.jar.session;
    expectTypeOf(jar.get('other')).toEqualTypeOf<Json | undefined>();
    expectTypeOf(jar.get<string[]>('other')).toEqualTypeOf<string[] | undefined>();
  });

  it('a server with a schema is assignable to ServerValise', () => {
    expectTypeOf(valise).toExtend<ServerValise>();
  });
});
