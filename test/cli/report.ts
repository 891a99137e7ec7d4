/** What `valise doctor --json` prints, as far as the tests look at it. */
export interface Report {
  readonly findings: readonly {
    readonly check: string;
    readonly status: string;
    readonly what: string;
    readonly fix?: string;
  }[];
}

/** What the report says of one check. */
export const of = ({ findings }: Report, check: string) =>
  findings.find((finding) => finding.check === check);
