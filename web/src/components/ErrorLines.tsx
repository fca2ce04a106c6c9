import { UserText } from "./UserText";

/** Why something failed, a line under the other: the last ones are of a server's log. */
export function ErrorLines({ text }: { text: string }) {
  return (
    <p className="banner said" data-kind="bad" role="alert">
      {text.split("\n").map((line, at) => (
        <span key={at}>
          <UserText text={line} />
        </span>
      ))}
    </p>
  );
}
