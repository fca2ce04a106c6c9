import { useState } from "react";
import { visible } from "./UserText";

/** Text to copy, with its heading. */
export function Copied({ title, text }: { title: string; text: string }) {
  const [copied, setCopied] = useState<string | null>(null);
  // Browsers lend the clipboard only to pages of this machine, or with a certificate.
  const canCopy = window.isSecureContext;
  return (
    <section aria-label={title} className="same-command">
      <header className="fields">
        <h3>{title}</h3>
        {canCopy && (
          <button
            type="button"
            className="button"
            onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(text))}
          >
            {copied === text ? "Copied" : "Copy"}
          </button>
        )}
      </header>
      <pre>{text.split("\n").map(visible).join("\n")}</pre>
    </section>
  );
}
