import { useState } from "react";
import type { JobForm } from "../../jobs/form";
import { submitLine } from "../../jobs/submitLine";

/** The command that submits the same, to copy. */
export function SameCommand({ form }: { form: JobForm }) {
  const line = submitLine(form);
  const [copied, setCopied] = useState<string | null>(null);
  // Browsers lend the clipboard only to pages of this machine, or with a certificate.
  const canCopy = window.isSecureContext;
  return (
    <section aria-label="The same in a terminal" className="same-command">
      <header className="fields">
        <h3>The same in a terminal</h3>
        {canCopy && (
          <button
            type="button"
            className="button"
            onClick={() => void navigator.clipboard.writeText(line).then(() => setCopied(line))}
          >
            {copied === line ? "Copied" : "Copy"}
          </button>
        )}
      </header>
      <pre>{line}</pre>
    </section>
  );
}
