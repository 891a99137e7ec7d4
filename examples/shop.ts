/**
 * A shop whose cart travels with the client. The server keeps nothing between calls.
 *
 *     valise example shop --stdio
 *     valise example shop --http 3000
 */
import { createValise, type Json } from 'mcp-valise/server';
import { z } from 'zod';
import { type Example, serveIfMain } from './serve.ts';

const Cart = z.object({ items: z.array(z.string()), price: z.number() });

export const example: Example = {
  name: 'shop',
  build({ McpServer, options }) {
    const valise = createValise({
      name: 'shop',
      ...options,
      jar: {
        // Plain: the client may read what is in its cart. Everything else is sealed.
        session: {
          'Cart Contents': { schema: Cart, plain: true },
          'Coupon Code': { schema: z.string(), plain: true },
        },
      },
    });

    const showCart = () => {
      const { session } = valise.jar;
      const { items, price } = session.get('Cart Contents') ?? { items: [], price: 0 };
      const coupon = session.get('Coupon Code');
      const list = items.length > 0 ? `${items.join(', ')}; total ${price}` : 'empty';
      return {
        content: [text(`Cart: ${list}${coupon === undefined ? '' : `; coupon ${coupon}`}`)],
        structuredContent: { items, price, ...(coupon !== undefined && { coupon }) },
      };
    };

    const server = () => {
      const shop = valise.install(new McpServer({ name: 'shop', version: '1.0.0' }));

      shop.registerTool(
        'add_item',
        {
          description: 'Puts an item into the cart.',
          inputSchema: z.object({ item: z.string(), price: z.number().nonnegative().default(0) }),
        },
        async ({ item, price }) => {
          const { session } = valise.jar;
          const cart = session.get('Cart Contents') ?? { items: [], price: 0 };
          session.set('Cart Contents', { items: [...cart.items, item], price: cart.price + price });
          return showCart();
        },
      );

      shop.registerTool(
        'view_cart',
        { description: 'Shows the cart.', inputSchema: z.object({}) },
        async () => showCart(),
      );

      shop.registerTool(
        'apply_coupon',
        { description: 'Adds a coupon to the cart.', inputSchema: z.object({ code: z.string() }) },
        async ({ code }) => {
          valise.jar.session.set('Coupon Code', code);
          return showCart();
        },
      );

      shop.registerTool(
        'clear_cart',
        { description: 'Empties the cart and takes the coupon off.', inputSchema: z.object({}) },
        async () => {
          const { session } = valise.jar;
          session.delete('Cart Contents');
          if (session.has('Coupon Code')) session.delete('Coupon Code');
          return showCart();
        },
      );

      shop.registerTool(
        'remember',
        {
          description: 'Remembers something about you, across sessions.',
          inputSchema: z.object({ name: z.string(), value: z.unknown() }),
        },
        async ({ name, value }) => {
          valise.jar.server.set(name, value as Json);
          return { content: [text(`Remembered ${name}.`)] };
        },
      );

      shop.registerTool(
        'recall',
        { description: 'Says what was remembered.', inputSchema: z.object({ name: z.string() }) },
        async ({ name }) => {
          const value = valise.jar.server.get(name);
          if (value === undefined) return { content: [text(`Nothing is remembered as ${name}.`)] };
          return { content: [text(typeof value === 'string' ? value : JSON.stringify(value))] };
        },
      );

      shop.registerTool(
        'forget',
        { description: 'Forgets what was remembered.', inputSchema: z.object({ name: z.string() }) },
        async ({ name }) => {
          valise.jar.server.delete(name);
          return { content: [text(`Forgot ${name}.`)] };
        },
      );

      return shop;
    };

    return { valise, server };
  },
};

const text = (words: string) => ({ type: 'text' as const, text: words });

await serveIfMain(import.meta.url, example);
