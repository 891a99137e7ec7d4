import { inBrowser, onContentUpdated } from 'vitepress';
import DefaultTheme from 'vitepress/theme';

/** Draws the diagrams of a page. Mermaid is large, so it is loaded only on pages that have some. */
async function draw() {
  const diagrams = document.querySelectorAll('pre.mermaid:not([data-processed])');
  if (diagrams.length === 0) return;
  const path = '/mermaid/mermaid.esm.min.mjs';
  const { default: mermaid } = await import(/* @vite-ignore */ path);
  mermaid.initialize({
    startOnLoad: false,
    theme: document.documentElement.classList.contains('dark') ? 'dark' : 'neutral',
  });
  await mermaid.run({ nodes: diagrams });
}

export default {
  extends: DefaultTheme,
  setup() {
    if (inBrowser) onContentUpdated(() => void draw());
  },
};
