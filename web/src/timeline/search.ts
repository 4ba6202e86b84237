// SPDX-License-Identifier: Apache-2.0
// A search for slices by name: counts at once, hits page by page as somebody goes through them.

import { useEffect, useRef, useState } from 'preact/hooks';
import { asProblem, isAbort, type Problem } from '../api';
import type { SliceRef } from '../types';
import type { SearchResult, TimelineSource } from './source';

const PAGE = 1000;
const HITS_MAX = 20_000;
// The overview shows this many hits without somebody going through them.
const SHOWN_PAGES = 5;
const TYPING_MS = 180;

export interface Search {
  result: SearchResult | null; // of the first page: its counts are of all
  hits: SliceRef[]; // in order of time, as far as they are here
  busy: boolean;
  problem: Problem | null;
  // The hit after (or before) a slice; null if there is none. Waits for the answer about `wanted`, the text as it is now.
  step: (wanted: string, from: { begin: number; slice: number } | null, direction: -1 | 1) => Promise<SliceRef | null>;
}

interface Found {
  text: string;
  hits: SliceRef[];
  more: boolean;
  signal: AbortSignal;
}

export function useSearch(source: TimelineSource, text: string): Search {
  const [state, setState] = useState<{ result: SearchResult | null; hits: SliceRef[]; busy: boolean; problem: Problem | null }>({ result: null, hits: [], busy: false, problem: null });
  const current = useRef<Found | null>(null);
  const waiting = useRef<((answered: string) => void) | null>(null);

  useEffect(() => {
    const control = new AbortController();
    current.current = null;
    if (text === '') {
      setState({ result: null, hits: [], busy: false, problem: null });
      return undefined;
    }
    setState((old) => ({ ...old, busy: true }));
    const timer = setTimeout(() => {
      source.search(text, null, PAGE, control.signal).then(
        (result) => {
          const found = { text, hits: result.matches, more: result.more, signal: control.signal };
          current.current = found;
          setState({ result, hits: result.matches, busy: false, problem: null });
          waiting.current?.(text);
          void (async () => {
            for (let page = 1; page < SHOWN_PAGES && found.more; page++) await more(found);
          })().catch(() => {}); // what is missing is asked for when somebody gets there
        },
        (error: unknown) => {
          if (!isAbort(error)) waiting.current?.(text);
          if (!isAbort(error)) setState({ result: null, hits: [], busy: false, problem: asProblem(error) });
        },
      );
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [source, text]);

  const more = async (search: Found): Promise<void> => {
    const last = search.hits[search.hits.length - 1];
    if (!last) return;
    const page = await source.search(search.text, last.slice, PAGE, search.signal);
    // Somebody else may have been faster.
    if (search.hits[search.hits.length - 1] !== last) return;
    search.hits = [...search.hits, ...page.matches];
    search.more = page.more && page.matches.length > 0;
    setState((old) => ({ ...old, hits: search.hits }));
  };

  // Answers to the beginning of a text that was typed on are passed over; one to another text ends the wait.
  const answer = (wanted: string): Promise<void> =>
    new Promise((resolve) => {
      waiting.current = (answered) => {
        if (answered !== wanted && wanted.startsWith(answered)) return;
        waiting.current = null;
        resolve();
      };
    });

  const step = async (wanted: string, from: { begin: number; slice: number } | null, direction: -1 | 1): Promise<SliceRef | null> => {
    if (wanted === '') return null;
    if (current.current?.text !== wanted) await answer(wanted);
    const search = current.current;
    if (search?.text !== wanted) return null;
    const isAfter = (hit: SliceRef) => !from || hit.begin > from.begin || (hit.begin === from.begin && hit.slice > from.slice);
    for (;;) {
      if (direction < 0) {
        const before = search.hits.filter((hit) => from && (hit.begin < from.begin || (hit.begin === from.begin && hit.slice < from.slice)));
        return before[before.length - 1] ?? search.hits[search.hits.length - 1] ?? null;
      }
      const found = search.hits.find(isAfter);
      if (found) return found;
      if (!search.more || search.hits.length >= HITS_MAX) return search.hits[0] ?? null;
      await more(search);
    }
  };
  return { ...state, step };
}
