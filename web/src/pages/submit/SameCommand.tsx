import { Copied } from "../../components/Copied";
import type { JobForm } from "../../jobs/form";
import { submitLine } from "../../jobs/submitLine";

/** The command that submits the same, to copy. */
export function SameCommand({ form }: { form: JobForm }) {
  return <Copied title="The same in a terminal" text={submitLine(form)} />;
}
