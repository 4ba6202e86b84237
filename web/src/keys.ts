// SPDX-License-Identifier: Apache-2.0
// Keys. A binding is one key ('j', '/', 'Enter', 'ArrowLeft', 'Ctrl+k'), a sequence ('g f'), or a place on the keyboard
// ('KeyW', for keys that belong together by their place). Letters follow the layout; on layouts without Latin letters they
// are taken by their place. Views that open later come first. Nothing is caught while somebody types text, or while a
// dialog is open.

import { useLayoutEffect, useRef } from 'preact/hooks';

export interface Binding {
  keys: string; // alternatives are separated by commas: 'j,ArrowDown'
  label: string; // for the list of keys; an empty one is not listed
  run: (event: KeyboardEvent) => void;
  typing?: boolean; // also while a text field has the focus
  own?: boolean; // the element that has the focus handles them: only for the list
}

interface Layer {
  title: string;
  bindings: () => Binding[];
}

const SEQUENCE_MS = 1200;
const layers: Layer[] = [];
let first: { key: string; at: number } | null = null;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

function nameOf(event: KeyboardEvent): string {
  const latin = event.key.length !== 1 || event.key.charCodeAt(0) < 128;
  const key = latin ? event.key : event.code.startsWith('Key') ? event.code.slice(3).toLowerCase() : event.key;
  return (event.ctrlKey || event.metaKey ? 'Ctrl+' : '') + (event.altKey ? 'Alt+' : '') + key;
}

function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || ['Shift', 'Control', 'Alt', 'Meta'].includes(event.key)) return;
  if (document.querySelector('dialog[open]')) return;
  const name = nameOf(event);
  const typing = isTyping(event.target);
  const sequence = first && performance.now() - first.at < SEQUENCE_MS ? `${first.key} ${name}` : null;
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
  let begins = false;
  for (const layer of [...layers].reverse()) {
    for (const binding of layer.bindings()) {
      if (binding.own || (typing && !binding.typing)) continue;
      for (const key of binding.keys.split(',')) {
        if (key.startsWith(name + ' ')) begins = true;
        if (key === sequence || (sequence === null && (key === name || (plain && key === event.code)))) {
          first = null;
          event.preventDefault();
          binding.run(event);
          return;
        }
      }
    }
  }
  first = begins && !typing ? { key: name, at: performance.now() } : null;
}

addEventListener('keydown', pressed);

// Keys of a component, while it is shown.
export function useKeys(title: string, bindings: Binding[]): void {
  const latest = useRef(bindings);
  latest.current = bindings;
  // With the first picture: who presses a key as soon as the view is there is heard.
  useLayoutEffect(() => {
    const layer: Layer = { title, bindings: () => latest.current };
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, [title]);
}

const nothing = () => {};

// Keys that an element handles by itself while it has the focus: listed, as the others are.
export function useOwnKeys(title: string, keys: [keys: string, label: string][]): void {
  useKeys(
    title,
    keys.map(([name, label]) => ({ keys: name, label, run: nothing, own: true })),
  );
}

// What can be pressed now, for the list of keys: the view's keys first.
export function allKeys(): { title: string; bindings: Binding[] }[] {
  return [...layers]
    .reverse()
    .map((layer) => ({ title: layer.title, bindings: layer.bindings().filter((binding) => binding.label !== '') }))
    .filter((layer) => layer.bindings.length > 0);
}
