// SPDX-License-Identifier: Apache-2.0
// What the palette can do: commands of the page and of the view that is shown.

import { useEffect, useRef } from 'preact/hooks';

export interface Command {
  title: string; // imperative: "Record all workers"
  hint?: string; // a key, or where it leads
  run: () => void;
}

const sources: (() => Command[])[] = [];

// Commands of a component, while it is shown.
export function useCommands(commands: Command[]): void {
  const latest = useRef(commands);
  latest.current = commands;
  useEffect(() => {
    const source = () => latest.current;
    sources.push(source);
    return () => {
      sources.splice(sources.indexOf(source), 1);
    };
  }, []);
}

export function allCommands(): Command[] {
  return [...sources].reverse().flatMap((source) => source());
}
