// SPDX-License-Identifier: Apache-2.0
// The form that starts a session, filled in: one button is enough.

import { useEffect, useState } from 'preact/hooks';
import { send, useAction } from '../api';
import { useCommands } from '../commands';
import { fleetKey } from '../fleet_data';
import { useKeys } from '../keys';
import { navigate } from '../router';
import type { Fleet, FleetWorker, Session } from '../types';
import { count, plural } from '../units';
import { Icon } from './icon';
import { ProblemBox } from './problem';

interface RecordProps {
  fleets: Fleet[];
  workers: FleetWorker[];
  odd: string[]; // URLs of workers
  chosen: string[];
}

type Subject = 'all' | 'odd' | 'chosen';

const DURATION_S = 5;
const STEPS = 10;

export function Record({ fleets, workers, odd, chosen }: RecordProps) {
  const [fleet, setFleet] = useState('');
  const [subject, setSubject] = useState<Subject>('all');
  const [unit, setUnit] = useState<'s' | 'steps'>('s');
  const [length, setLength] = useState(DURATION_S);
  const [stack, setStack] = useState(false);
  const [shapes, setShapes] = useState(false);
  const [queue, setQueue] = useState(false);
  const [label, setLabel] = useState('');
  const selected = fleets.find((each) => fleetKey(each) === fleet) ?? fleets[0];
  const mine = workers.filter((worker) => worker.fleet === selected?.fleet);
  const within = (urls: string[]) => mine.filter((worker) => worker.state === 'ok' && urls.includes(worker.worker)).map((worker) => worker.worker);
  const subjects: Record<Subject, string[]> = { all: mine.filter((worker) => worker.state === 'ok').map((worker) => worker.worker), odd: within(odd), chosen: within(chosen) };
  const effective = subjects[subject].length > 0 ? subject : 'all';
  const urls = subjects[effective];
  const isAll = urls.length === mine.length;
  useEffect(() => setSubject(chosen.length > 0 ? 'chosen' : 'all'), [chosen.length > 0]);
  // Workers are chosen of one fleet at a time.
  const first = chosen.length > 0 ? workers.find((worker) => worker.worker === chosen[0])?.fleet : undefined;
  useEffect(() => {
    if (first) setFleet(first);
  }, [first]);

  const start = useAction(async () => {
    const mark = label.indexOf('=');
    const session = await send<Session>('POST', '/v1/sessions', {
      ...(selected?.fleet ? { fleet: selected.fleet } : { router: selected?.router }),
      ...(isAll ? {} : { workers: urls }),
      ...(unit === 's' ? { duration_ns: Math.round(length * 1e9) } : { steps: Math.round(length) }),
      ...(stack ? { with_stack: true } : {}),
      ...(shapes ? { record_shapes: true } : {}),
      ...(queue ? { queue: true } : {}),
      ...(mark > 0 ? { labels: { [label.slice(0, mark).trim()]: label.slice(mark + 1).trim() } } : {}),
    });
    navigate('/sessions/' + session.session);
  });
  const what = `${isAll ? 'all ' : ''}${plural(urls.length, 'worker')}`;
  const valid = urls.length > 0 && length > 0 && (label === '' || label.indexOf('=') > 0);
  const run = () => {
    if (valid && !start.busy) start.run();
  };
  useKeys('Record', [{ keys: 'r', label: 'Record', run: () => document.getElementById('record-start')?.focus() }]);
  useCommands([{ title: `Record ${what}`, hint: 'start', run }]);
  const options: [Subject, string][] = [
    ['all', `all recordable workers (${count(subjects.all.length)})`],
    ['odd', `unusual workers (${count(subjects.odd.length)})`],
    ['chosen', `selected workers (${count(subjects.chosen.length)})`],
  ];
  return (
    <form
      class="record"
      onSubmit={(event) => {
        event.preventDefault();
        run();
      }}
    >
      {fleets.length > 1 && (
        <label>
          Fleet
          <select value={selected && fleetKey(selected)} onChange={(event) => setFleet(event.currentTarget.value)}>
            {fleets.map((each) => (
              <option key={fleetKey(each)} value={fleetKey(each)}>
                {fleetKey(each)}
              </option>
            ))}
          </select>
        </label>
      )}
      <label>
        Workers
        <select value={effective} onChange={(event) => setSubject(event.currentTarget.value as Subject)}>
          {options.map(([value, text]) => (
            <option key={value} value={value} disabled={subjects[value].length === 0}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label>
        Length
        <span class="joined">
          <input
            type="number"
            aria-label="Length"
            min={unit === 's' ? 0.1 : 1}
            step={unit === 's' ? 'any' : 1}
            value={length}
            onInput={(event) => setLength(event.currentTarget.valueAsNumber || 0)}
          />
          <select
            aria-label="Unit of the length"
            value={unit}
            onChange={(event) => {
              const next = event.currentTarget.value as 's' | 'steps';
              setUnit(next);
              setLength(next === 's' ? DURATION_S : STEPS);
            }}
          >
            <option value="s">s</option>
            <option value="steps">steps</option>
          </select>
        </span>
      </label>
      <button type="submit" id="record-start" class="primary" disabled={!valid || start.busy}>
        <Icon name="record" />
        Record {what}
      </button>
      <details>
        <summary>More options</summary>
        <div class="record-more">
          <label>
            <input type="checkbox" checked={stack} onChange={(event) => setStack(event.currentTarget.checked)} /> Python stacks
          </label>
          <label>
            <input type="checkbox" checked={shapes} onChange={(event) => setShapes(event.currentTarget.checked)} /> Shapes of tensors
          </label>
          <label>
            <input type="checkbox" checked={queue} onChange={(event) => setQueue(event.currentTarget.checked)} /> Wait for busy workers
          </label>
          <label>
            Label <input type="text" placeholder="KEY=VALUE" value={label} onInput={(event) => setLabel(event.currentTarget.value)} />
          </label>
        </div>
      </details>
      <ProblemBox problem={start.problem} />
    </form>
  );
}
