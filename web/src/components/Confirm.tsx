import type { ReactNode } from "react";
import { Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";

/** Asks before something that cannot be taken back. */
export function Confirm({
  title,
  action,
  children,
  onConfirm,
  onClose,
}: {
  title: string;
  action: string;
  children: ReactNode;
  onConfirm: () => void;
  onClose: () => void;
}) {
  return (
    <ModalOverlay className="overlay" isOpen isDismissable onOpenChange={(open) => !open && onClose()}>
      <Modal>
        <Dialog className="dialog" role="alertdialog">
          <Heading slot="title">{title}</Heading>
          <p style={{ margin: 0 }}>{children}</p>
          <div className="actions">
            <button type="button" className="button" onClick={onClose}>
              Keep it
            </button>
            <button type="button" className="button" data-kind="main" onClick={onConfirm}>
              {action}
            </button>
          </div>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
