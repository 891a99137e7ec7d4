import { isSealed } from './carried.ts';
import { type Story, textOf } from './story.ts';

const ADDRESS = 'Rue de la Paix 1';

/** Family J: state that the client carries. */
export const cart: Story = {
  name: 'cart',
  title: 'A cart that the client carries',
  about:
    'The shop keeps nothing between calls. Its state travels to the client and comes back with each request.',
  async tell(run) {
    const instances = await run.serve('shop', 1, ['--stateless']);
    const url = await run.open(instances);
    const { client, valise } = await run.client(url);
    const call = async (name: string, args: Record<string, unknown> = {}): Promise<string> =>
      textOf(await client.callTool({ name, arguments: args }));

    await call('add_item', { item: 'cucumber', price: 40 });
    await call('add_item', { item: 'tomato', price: 60 });
    await call('remember', { name: 'address', value: ADDRESS });

    const [first] = instances;
    if (first) await run.kill(first, 'and another one takes its place');
    instances.splice(0, 1, ...(await run.serve('shop', 1, ['--stateless'])));
    run.lanes(instances);
    const seen = await call('view_cart');
    const address = await call('recall', { name: 'address' });
    run.event('a second client comes, which carries nothing');
    const stranger = await run.client(url, { principal: `${run.settings.principal}-other` });
    const other = textOf(await stranger.client.callTool({ name: 'view_cart', arguments: {} }));

    const inJar = valise.jar.show(url.hostname);
    await valise.jar.clear();

    run.claim(
      'an instance that never saw the cart shows it: cucumber, tomato, 100 in all',
      seen === 'Cart: cucumber, tomato; total 100',
    );
    const remembered = inJar.find(({ key }) => key === 'address')?.value;
    run.claim(
      `the client carries the address too, but cannot read it; the new instance can: ${address}`,
      isSealed(remembered) && !remembered.includes(ADDRESS) && address === ADDRESS,
    );
    run.claim('a second client has a cart of its own, which is empty', other === 'Cart: empty');
  },
};
