// SPDX-License-Identifier: Apache-2.0
// Labels of sessions, traces and runs: shown, and changed in a dialog.

import { useState } from 'preact/hooks';
import { send, useAction } from '../api';
import { address, place } from '../router';
import type { Labels } from '../types';
import { Dialog } from './dialog';
import { Icon } from './icon';
import { ProblemBox } from './problem';

// Each label leads to the list that it selects.
export function LabelList({ labels, list }: { labels: Labels | undefined; list: string }) {
  return (
    <>
      {Object.entries(labels ?? {}).map(([key, value]) => (
        <a key={key} class="label" href={address(list, { label: `${key}=${value}` })} title={`Show ${key}=${value} only`}>
          {key}={value}
        </a>
      ))}
    </>
  );
}

// In a list, where a label has to fit beside it.
export function Pinned() {
  return (
    <span class="label pinned" title="pinned">
      <Icon name="pin" />
      <span class="hidden">pinned</span>
    </span>
  );
}

function parsed(text: string): Labels | string {
  const labels: Labels = {};
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const mark = line.indexOf('=');
    if (mark < 1) return `"${line.trim()}" is not KEY=VALUE`;
    labels[line.slice(0, mark).trim()] = line.slice(mark + 1).trim();
  }
  return labels;
}

// `paths` are of what is labelled: /v1/sessions/s7. Labels that `before` has and the text has not are removed.
export function LabelDialog({ paths, before, onClose }: { paths: string[]; before: Labels; onClose: (changed: boolean) => void }) {
  const [text, setText] = useState(
    Object.entries(before)
      .map(([key, value]) => `${key}=${value}`)
      .join('\n'),
  );
  const labels = parsed(text);
  const save = useAction(async () => {
    if (typeof labels === 'string') return;
    const changes: Record<string, string | null> = { ...labels };
    for (const key of Object.keys(before)) if (!(key in labels)) changes[key] = null;
    for (const path of paths) await send('PUT', path + '/labels', changes);
    onClose(true);
  });
  return (
    <Dialog label="Labels" onClose={() => onClose(false)}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          save.run();
        }}
      >
        <h2>Labels{paths.length > 1 ? ` of ${paths.length} rows of ${place().path.slice(1)}` : ''}</h2>
        <label for="labels">One label on each line: KEY=VALUE</label>
        <textarea id="labels" class="mono" rows={6} autofocus spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        {typeof labels === 'string' && <p class="costs">{labels}</p>}
        <ProblemBox problem={save.problem} />
        <div class="buttons">
          <button type="submit" class="primary" disabled={save.busy || typeof labels === 'string'}>
            Save
          </button>
          <button type="button" onClick={() => onClose(false)}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
