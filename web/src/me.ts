// SPDX-License-Identifier: Apache-2.0
// Who is signed in, and what they may do. Views that offer a change ask useCan(); profd decides all the same.

import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Me, Role } from './types';

const ORDER: Role[] = ['peer', 'read', 'operate', 'admin'];

export const MeContext = createContext<Me | null>(null);

export function useMe(): Me {
  const me = useContext(MeContext);
  if (!me) throw new Error('nobody is signed in');
  return me;
}

export function useCan(role: Role): boolean {
  return ORDER.indexOf(useMe().role) >= ORDER.indexOf(role);
}
