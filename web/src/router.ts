// SPDX-License-Identifier: Apache-2.0
// Addresses of views: a path and parameters in the fragment (#/traces/t12?from=0&to=1000), which no server log sees.
// The browser's history is the only state, so Back and copied links work.

import { useEffect, useState } from 'preact/hooks';

interface Place {
  path: string;
  query: URLSearchParams;
}

const CHANGED = 'profd:place';

export function place(): Place {
  const fragment = location.hash.startsWith('#/') ? location.hash.slice(1) : '/';
  const mark = fragment.indexOf('?');
  return mark < 0
    ? { path: fragment, query: new URLSearchParams() }
    : { path: fragment.slice(0, mark), query: new URLSearchParams(fragment.slice(mark + 1)) };
}

type Parameters = Record<string, string | number | null | undefined>;

// The address of a view. Parameters that are null, undefined or empty are left out.
export function address(path: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return '#' + path + (text ? '?' + text : '');
}

export function navigate(path: string, parameters: Parameters = {}): void {
  history.pushState(null, '', address(path, parameters));
  dispatchEvent(new Event(CHANGED));
}

// Changes parameters of the view that is shown. Without `push` Back does not stop at the change: for windows that move.
export function setParameters(changes: Parameters, push = false): void {
  const { path, query } = place();
  const all: Parameters = { ...Object.fromEntries(query), ...changes };
  history[push ? 'pushState' : 'replaceState'](null, '', address(path, all));
  dispatchEvent(new Event(CHANGED));
}

export function usePlace(): Place {
  const [current, setCurrent] = useState(place);
  useEffect(() => {
    const changed = () => setCurrent(place());
    const kinds = [CHANGED, 'hashchange', 'popstate'];
    for (const kind of kinds) addEventListener(kind, changed);
    changed();
    return () => {
      for (const kind of kinds) removeEventListener(kind, changed);
    };
  }, []);
  return current;
}

// '/traces/:trace' and '/traces/t12' give {trace: 't12'}; null where they do not match.
export function match(pattern: string, path: string): Record<string, string> | null {
  const expected = pattern.split('/');
  const parts = path.split('/');
  if (expected.length !== parts.length) return null;
  const found: Record<string, string> = {};
  for (let i = 0; i < parts.length; i++) {
    const name = expected[i]!;
    const part = parts[i]!;
    if (name.startsWith(':')) {
      if (part === '') return null;
      try {
        found[name.slice(1)] = decodeURIComponent(part);
      } catch {
        return null;
      }
    } else if (name !== part) {
      return null;
    }
  }
  return found;
}
