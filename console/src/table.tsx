import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** A column of a table. */
export interface Column<Row> {
  readonly name: string;
  /** Its width, as in `grid-template-columns`. */
  readonly width: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly isNumber?: boolean;
}

const ROW = 38;
const BESIDE = 8;

/** Follows which rows of a list are in view. Only those are in the page. */
export function useWindow(count: number, rowHeight: number) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener('scroll', measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener('scroll', measure);
    };
  }, []);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - BESIDE);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + BESIDE);
  return { box, first, last };
}

/** A table of any length. Arrow keys move the selection. */
export function Table<Row>({
  label,
  columns,
  rows,
  keyOf,
  selected,
  onSelect,
  minWidth = 640,
}: {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly selected?: string | undefined;
  readonly onSelect?: (row: Row) => void;
  readonly minWidth?: number;
}) {
  const { box, first, last } = useWindow(rows.length, ROW);
  const template = columns.map(({ width }) => width).join(' ');
  const at = rows.findIndex((row) => keyOf(row) === selected);
  useEffect(() => {
    const element = box.current;
    if (!element || at < 0) return;
    const top = at * ROW;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + 2 * ROW > element.scrollTop + element.clientHeight)
      element.scrollTop = top + 2 * ROW - element.clientHeight;
  }, [at, box]);
  const move = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
    if (step === 0 || !onSelect || !next) return;
    event.preventDefault();
    onSelect(next);
  };
  return (
    <div class="table-box" ref={box} tabIndex={0} onKeyDown={move} role="region" aria-label={label}>
      <div
        class="table"
        role="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        style={{ minWidth: `${minWidth}px` }}
      >
        <div role="rowgroup" class="table-head">
          <div role="row" class="table-row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
            {columns.map(({ name, isNumber }) => (
              <div role="columnheader" key={name} class={isNumber ? 'number' : ''}>
                {name}
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" class="table-body" style={{ height: `${rows.length * ROW}px` }}>
          {rows.slice(first, last).map((row, index) => {
            const key = keyOf(row);
            return (
              <div
                role="row"
                key={key}
                aria-rowindex={first + index + 2}
                aria-current={key === selected ? 'true' : undefined}
                class={key === selected ? 'table-row selected' : 'table-row'}
                style={{ gridTemplateColumns: template, top: `${(first + index) * ROW}px` }}
                onClick={() => onSelect?.(row)}
              >
                {columns.map(({ name, cell, isNumber }) => (
                  <div role="cell" key={name} class={isNumber ? 'number' : ''}>
                    {cell(row)}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
