import type { MeterProvider, TracerProvider } from '@opentelemetry/api';
import { checkOptions, FLAG, SETTINGS } from '../core/options.ts';

/** Options of {@link telemetry}. */
export interface TelemetryOptions {
  /**
   * Whether Valise creates spans. Set it to false if another library creates a span for each request inside of Valise's. The
   * active span then gets Valise's attributes, and links between rounds.
   *
   * A span that another library has created around Valise is found, and there is no second one.
   *
   * @defaultValue true
   */
  readonly spans?: boolean | undefined;
  /** Records the arguments and results of tools in spans. They may contain anything that users say. @defaultValue false */
  readonly captureContent?: boolean | undefined;
  /** Records the id of the transport's session in spans. For some servers it grants access. @defaultValue false */
  readonly captureSessionId?: boolean | undefined;
  /** @defaultValue the global provider */
  readonly tracerProvider?: TracerProvider | undefined;
  /** @defaultValue the global provider at the time that the Valise is created */
  readonly meterProvider?: MeterProvider | undefined;
}

/** {@link TelemetryOptions} with defaults applied. */
export interface Settings {
  readonly spans: boolean;
  readonly captureContent: boolean;
  readonly captureSessionId: boolean;
}

/** Checks the options and applies defaults. */
export function readSettings(options: TelemetryOptions): Settings {
  checkOptions('telemetry', options, {
    spans: FLAG,
    captureContent: FLAG,
    captureSessionId: FLAG,
    tracerProvider: SETTINGS,
    meterProvider: SETTINGS,
  });
  const { spans = true, captureContent = false, captureSessionId = false } = options;
  return { spans, captureContent, captureSessionId };
}
