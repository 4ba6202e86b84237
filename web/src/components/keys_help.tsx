// SPDX-License-Identifier: Apache-2.0
// The list of keys that work now.

import { useMemo } from 'preact/hooks';
import { allKeys } from '../keys';
import { Dialog } from './dialog';

const NAMES: Record<string, string> = {
  PageUp: 'PgUp',
  PageDown: 'PgDn',
  ArrowUp: '↑', ArrowDown: '↓', ArrowLeft: '←', ArrowRight: '→', Escape: 'Esc', ' ': 'Space' };

export function Keys({ keys }: { keys: string }) {
  return (
    <span class="keys">
      {keys.split(',').map((alternative, i) => (
        <span key={alternative}>
          {i > 0 && ' or '}
          {alternative.split(/[ +](?=.)/).map((key) => (
            <kbd key={key}>{NAMES[key] ?? key.replace(/^Key(.)/, (_, letter: string) => letter.toLowerCase())}</kbd>
          ))}
        </span>
      ))}
    </span>
  );
}

export function KeysHelp({ onClose }: { onClose: () => void }) {
  const layers = useMemo(allKeys, []);
  return (
    <Dialog label="Keys" onClose={onClose} wide>
      <h2 tabIndex={-1} autofocus>
        Keys
      </h2>
      <div class="keys-help">
        {layers.map((layer) => (
          <section key={layer.title}>
            <h3>{layer.title}</h3>
            <dl>
              {layer.bindings.map((binding) => (
                <div key={binding.keys + binding.label}>
                  <dt>
                    <Keys keys={binding.keys} />
                  </dt>
                  <dd>{binding.label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <button type="button" onClick={onClose}>
        Close
      </button>
    </Dialog>
  );
}
