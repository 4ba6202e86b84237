// SPDX-License-Identifier: Apache-2.0
// Dark or light: as the system has it, or as the user chose in this browser.

export type Theme = 'system' | 'dark' | 'light';

const KEY = 'profd:theme';
const CHANGED = 'profd:theme';

export function theme(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === 'dark' || stored === 'light' ? stored : 'system';
}

export function isDark(): boolean {
  const chosen = theme();
  return chosen === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : chosen === 'dark';
}

export function applyTheme(): void {
  const chosen = theme();
  if (chosen === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = chosen;
  dispatchEvent(new Event(CHANGED));
}

export function setTheme(chosen: Theme): void {
  if (chosen === 'system') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, chosen);
  applyTheme();
}

// Canvases are drawn again when the colours change.
export function onThemeChange(callback: () => void): () => void {
  const query = matchMedia('(prefers-color-scheme: dark)');
  addEventListener(CHANGED, callback);
  query.addEventListener('change', callback);
  return () => {
    removeEventListener(CHANGED, callback);
    query.removeEventListener('change', callback);
  };
}
